package policies

import "slices"

// Selection yields the policies of a set that may match a request, by their indices in the order of the file. All others have
// a condition that asks for another route or path.
type Selection struct{ lists [3][]int32 }

// selections find policies by a text that their conditions ask for. Among a hundred policies for distinct routes few are left to ask.
type selections struct {
	always        []int32 // policies whose conditions name no route and no path
	routes, paths map[string][]int32
}

// Selection returns the policies that may match a request. Policy.Charge says which of them do.
func (s *Set) Selection(r *Request) (list Selection) {
	// A file without a condition on routes pays no look-up for them.
	list.lists[0] = s.selections.always
	if len(s.selections.routes) > 0 {
		list.lists[1] = s.selections.routes[r.Route]
	}
	if len(s.selections.paths) > 0 {
		list.lists[2] = s.selections.paths[r.Path]
	}
	return list
}

// Next returns the index of the next policy, false behind the last one.
func (s *Selection) Next() (index int, more bool) {
	// Each list is in the file's order, so the policies of all of them come in that order, too: decisions are joined by it.
	least := -1
	for i := range s.lists {
		if len(s.lists[i]) > 0 && (least < 0 || s.lists[i][0] < s.lists[least][0]) {
			least = i
		}
	}
	if least < 0 {
		return 0, false
	}

	index = int(s.lists[least][0])
	s.lists[least] = s.lists[least][1:]
	return index, true
}

// selectionsOf sorts policies by what their conditions ask for. A policy is in one of the tables only, so it is yielded once.
func selectionsOf(list []*Policy) selections {
	// A route says more than a path, for it stands for many.
	s := selections{routes: map[string][]int32{}, paths: map[string][]int32{}}
	for i, p := range list {
		index := int32(i)
		if p.when == nil || !s.add(index, s.routes, p.when.textsOf("request.route")) &&
			!s.add(index, s.paths, p.when.textsOf("request.path")) {
			s.always = append(s.always, index)
		}
	}
	return s
}

// add puts a policy into a table under each of the texts, and reports whether there are any.
func (s *selections) add(index int32, table map[string][]int32, texts []string) bool {
	for _, text := range texts {
		if !slices.Contains(table[text], index) {
			table[text] = append(table[text], index)
		}
	}
	return len(texts) > 0
}

// textsOf returns the texts one of which a field must equal for the condition to be true; nil if there are none.
func (x *expression) textsOf(field string) (texts []string) {
	// A prefix stands for texts without an end, which no table can have.
	for _, f := range x.filters {
		if f.field != field || slices.ContainsFunc(f.accepts, func(p pattern) bool { return p.prefix }) {
			continue
		}
		for _, p := range f.accepts {
			texts = append(texts, p.text)
		}
		return texts
	}
	return nil
}
