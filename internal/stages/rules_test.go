package stages

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// scenario is a fleet and what may happen to it, at most so often.
type scenario struct {
	name         string
	fleet        world
	acts         []act
	disturbances int
	depth        int
	whole        int // of this depth at least a search of fullSearch worlds leaves none out; depth: it ends
}

// fullSearch and shortSearch are how many worlds of a scenario are searched, the second with -short.
const fullSearch, shortSearch = 60000, 500

// starts are acts by place and file: "0B2" starts B of generation 2 in place 0, "0A+" does so with its disk.
func starts(list string) (acts []act) {
	for _, s := range strings.Fields(list) {
		file, disk := strings.CutSuffix(s[1:], "+")
		acts = append(acts, start(int(s[0]-'0'), file, disk))
	}
	return acts
}

func ends(list ...int) (acts []act) {
	for _, i := range list {
		acts = append(acts, end(i))
	}
	return acts
}

func scenarios() []scenario {
	join := slices.Concat[[]act]
	replica := []string{"mirror", "failover"}
	return []scenario{
		{"rolling, undone", fleetOf("A A A", "A", Promoted), starts("0B 1B 2B 0A 1A 2A"), 5, 14, 14},
		{"rolling with generations, undone", fleetOf("A1 A1 A1", "A", Promoted), starts("0B2 1B2 2B2 0A1 1A1 2A1"), 5, 14, 14},
		{"rolling with generations, undone by a larger one", fleetOf("A1 A1", "A", Promoted), starts("0B2 1B2 0A3 1A3"), 4, 14, 14},
		{"two files after another, undone", fleetOf("A1 A1", "A", Promoted), starts("0B2 1B2 0C3 1C3 0A1 1A1"), 6, 18, 14},
		{"rolling from a completed file", fleetOf("A A A", "A", Completed), starts("0B 1B 2B 0A 1A"), 5, 14, 14},
		{"rolling from a completed file, with generations", fleetOf("A1 A1 A1", "A", Completed), starts("0B2 1B2 2B2 0A1 1A1"), 5, 14, 14},
		{"a forgotten generation", fleetOf("A1 A1", "A", Promoted), starts("0B1 1B1 0A1 1A1"), 4, 14, 14},
		{"back to a file without a generation", fleetOf("A5 A5", "A", Promoted), starts("0B 1B 0A5 1A5"), 4, 14, 14},
		{"the stored file grows, a straggler between", fleetOf("A1 A1 B3", "A", Promoted), join(starts("0A5 1A5 2B3"), ends(2)), 4, 14, 14},
		{"a straggler serves, adopt", fleetOf("A B B B", "A", Promoted), join(ends(0, 1), starts("0A"), cuts(0), []act{adopt("A"), adopt("B")}), 4, 14, 8},
		{"a straggler of a larger generation, adopt", fleetOf("A1 A1 B2", "B", Shadow), join(ends(2), starts("2B2 0C3"), cuts(2), []act{adopt("A"), adopt("B")}), 4, 14, 9},
		{"an idle straggler", fleetOf("a B B", "A", Promoted), join(ends(0), starts("0a"), []act{adopt("B")}), 3, 12, 12},
		{"a laptop with a larger generation", fleetOf("A1 A1", "A", Promoted), join(starts("2B9 2b9 0A2 1C2"), ends(2), cuts(2), []act{adopt("A")}), 5, 14, 8},
		{"a laptop", fleetOf("A A", "A", Promoted), join(starts("2B9 2b9 0A"), ends(2), []act{adopt("A")}), 5, 14, 14},
		{"two fleets of one name", fleetOf("A A B B", "A", Promoted), join(starts("0A 1A 2B 3B"), ends(0, 1, 2, 3)), 4, 14, 7},
		{"two fleets of one name, with generations", fleetOf("A1 A1 B2 B2", "B", Shadow), join(starts("0A1 2B2 3B2"), ends(0, 1, 2, 3)), 4, 12, 7},
		{"a crash loop of a larger generation", fleetOf("A1 A1", "A", Promoted), join(starts("2B2"), ends(2)), 8, 18, 18},
		{"a crash loop", fleetOf("A", "A", Promoted), join(starts("1B 0A 0A+"), ends(0, 1)), 6, 16, 16},
		{"data lost, outages, cuts", fleetOf("A A B", "A", Promoted), join(disasters(), cuts(0, 1, 2)), 3, 14, 7},
		{"data lost, outages, cuts, an idle larger generation", fleetOf("A1 A1 b2", "A", Promoted), join(disasters(), cuts(0, 1, 2)), 3, 14, 7},
		{"data lost, a fresh file", fleetOf("A A", "A", Promoted), join(disasters(), cuts(0, 1), starts("2B 2A"), ends(2)), 4, 12, 6},
		{"data lost in shadow, restarts", fleetOf("A A", "A", Shadow), join(disasters(), cuts(0), starts("1A 1A+")), 4, 10, 8},
		{"an old snapshot, rollback", fleetOf("A A A", "A", Promoted), join(disasters(), cuts(0, 1), persons("rollback", "resume", "promote"), starts("2A 2A+")), 4, 10, 6},
		{"lineages", fleetOf("A A", "A", Promoted), join(disasters(replica...), cuts(0, 1), persons("rollback", "resume", "promote")), 8, 14, 7},
		{"partition, a straggler of a smaller generation", fleetOf("A2 A2 B1", "A", Promoted), cuts(0, 1, 2), 4, 14, 10},
		{"canary, cuts, restarts", fleetOf("A A", "A", Canary), join(disasters(), cuts(0, 1), starts("0A+ 1B"), persons("rollback", "promote")), 4, 10, 6},
		{"red button", fleetOf("A A", "A", Promoted), join(cuts(1), []act{button(0), button(1)}, starts("0B 0A"), ends(1), persons("rollback", "resume", "promote")), 6, 12, 7},
		{"red button, with generations", fleetOf("A1 A1", "A", Promoted), join(cuts(1), []act{button(1)}, starts("0B2 0A1 1B2"), persons("rollback", "resume")), 5, 12, 8},
		{"blue and green", fleetOf("A A", "A", Promoted), join(starts("2B 3B"), ends(0, 1, 2, 3), []act{adopt("B")}), 5, 14, 7},
		{"blue and green, with generations", fleetOf("A1 A1", "A", Promoted), join(starts("2B2 3B2"), ends(0, 1, 2, 3), []act{adopt("A")}), 5, 14, 8},
		{"to zero and back", fleetOf("A A", "A", Promoted), join(ends(0, 1), starts("0A 1A 0a"), disasters("away", "back")), 5, 14, 14},
		{"to zero and back, an idle stray", fleetOf("A A b", "A", Promoted), join(ends(0, 1, 2), starts("0A 1A 0a")), 5, 14, 9},
		{"recreate", fleetOf("A A", "A", Promoted), join(ends(0, 1), starts("0B 1B 0A"), disasters()), 5, 12, 6},
		{"recreate, with generations", fleetOf("A1 A1", "A", Promoted), join(ends(0, 1), starts("0B2 1B2 0A1"), disasters()), 5, 12, 6},
		{"one instance, rollbacks", fleetOf("A", "A", Promoted), join(starts("0B 0A 0C"), persons("rollback", "resume")), 8, 24, 17},
		{"one instance, whole lives", fleetOf("A1", "A", Promoted), join(starts("0B2 0A1 0C3 0A4"), persons("rollback", "resume", "promote", "complete")), 7, 20, 13},
		{"a replica of an older term", ofAnOlderTerm(), join(disasters("FLUSHALL", "mirror", "failover"), cuts(0), starts("1A"), persons("rollback")), 5, 12, 7},
		{"a late move", fleetOf("A A", "A", Shadow), join(disasters("FLUSHALL", "mirror", "failover"), starts("1B 0A"), ends(0), persons("judge", "move")), 5, 10, 7},
		{"lineages of two files", fleetOf("A1 A1", "A", Promoted), join(disasters(replica...), cuts(0), starts("1B2 1A1"), persons("rollback", "resume", "promote")), 6, 11, 7},
		{"night", fleetOf("A A B", "A", Promoted), join(starts("0a 1a 0A 1A"), ends(2)), 5, 14, 14},
		{"a rollback of the next file, undone", fleetOf("A1 A1", "A", Promoted), join(starts("0B2 1B2 0A1 1A1"), persons("rollback", "promote")), 6, 18, 14},
		{"all at once, disks kept", fleetOf("A A", "A", Promoted), join(disasters("FLUSHALL", "away", "back"), starts("0A+ 1A+ 0A 1A"), persons("rollback")), 5, 12, 10},
	}
}

// ofAnOlderTerm is a fleet that knows 2.4, with a replica that stopped following at 1.4.
func ofAnOlderTerm() world {
	w := fleetOf("A A", "A", Promoted)
	w.begun, w.rollbacks = 2, 1
	s := w.redis.state
	s.Version, s.Since = Version{2, 4}, w.evidence()
	w.redis.state, w.in[0].applied, w.in[1].applied = s, s, s
	return w
}

// excused are what the rules leave where Redis has lost data, by FLUSHALL or a failover, and why.
var excused = map[string]bool{
	// A failover has lost a rollback that all forgot who reach Redis, and an instance that knows is heard a moment later.
	"rolled back, in shadow": true,
	// The heartbeats of the stored fingerprint, or its larger generation, were lost: it is restored.
	"heard": true, "larger": true,
}

// search goes through the worlds of a scenario in order of depth until there are most. It returns the shortest trace of each
// finding that is not excused, and up to which depth it has seen every world.
func (sc *scenario) search(most int) (traces map[string]string, worlds, whole int) {
	type node struct{ parent, act, depth int }
	names := []string{"round", "round backwards"}
	for _, a := range sc.acts {
		names = append(names, a.name)
	}

	sc.fleet.left = sc.disturbances
	list, nodes := []world{sc.fleet}, []node{{-1, 0, 0}}
	seen := map[string]bool{sc.fleet.key(): true}
	traces = map[string]string{}
	note := func(w *world, found []finding, k int, last string) {
		for _, f := range found {
			if w.loss && excused[f.law] || traces[f.law] != "" {
				continue
			}
			trace := []string{last, f.what}
			for ; k > 0; k = nodes[k].parent {
				trace = slices.Insert(trace, 0, names[nodes[k].act])
			}
			traces[f.law] = strings.Join(trace, "; ")
		}
	}
	push := func(w *world, parent, act int) {
		key := w.key()
		if seen[key] {
			return
		}
		seen[key] = true
		list, nodes = append(list, *w), append(nodes, node{parent, act, nodes[parent].depth + 1})
		note(w, w.rest(), len(nodes)-1, "rest")
	}

	note(&sc.fleet, sc.fleet.rest(), 0, "rest")
	for k := 0; k < len(list); k++ {
		if len(list) > most {
			return traces, len(list), nodes[k].depth
		}
		if nodes[k].depth >= sc.depth {
			continue
		}
		for backwards := range 2 {
			w := list[k]
			found := w.wait(backwards == 1)
			note(&w, slices.DeleteFunc(found, func(f finding) bool { return f.law == "completed" }), k, names[backwards])
			push(&w, k, backwards)
		}
		for i, a := range sc.acts {
			w := list[k]
			if w.left >= a.cost && a.do(&w) {
				w.left -= a.cost
				w.note()
				push(&w, k, i+2)
			}
		}
	}
	return traces, len(list), sc.depth
}

// The rules hold in every order of what may happen to a fleet, as far as the bounds of its scenario and of the search go.
func TestRulesHoldInBoundedSearch(t *testing.T) {
	most := fullSearch
	if testing.Short() {
		most = shortSearch
	}
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			traces, worlds, whole := sc.search(most)
			t.Logf("%d worlds, all up to a depth of %d of %d", worlds, whole, sc.depth)
			for law, trace := range traces {
				t.Errorf("%s: %s", law, trace)
			}
			if most == fullSearch && whole < sc.whole {
				t.Errorf("every world is searched up to a depth of %d, want %d", whole, sc.whole)
			}
		})
	}
}

// follow has a fleet go a way, a round for each number, and returns how it rests.
func (w world) follow(t *testing.T, acts []act, way string) string {
	t.Helper()
	w.left = 100
	for name := range strings.SplitSeq(way, "; ") {
		var rounds int
		if _, err := fmt.Sscanf(name, "%d rounds", &rounds); err == nil {
			for k := range rounds {
				w.wait(k%2 == 1)
			}
			continue
		}
		i := slices.IndexFunc(acts, func(a act) bool { return a.name == name })
		if i < 0 {
			t.Fatalf("no act %q", name)
		}
		if !acts[i].do(&w) {
			t.Fatalf("%q is not possible", name)
		}
	}
	for _, f := range w.rest() {
		t.Errorf("%s: %s", f.law, f.what)
	}
	for k := range 16 {
		w.wait(k%2 == 1)
	}
	s := w.redis.state
	return fmt.Sprint(s.Stage, " ", s.Fingerprint)
}

// Each of these traces has lost a promoted stage, or brought one back after a rollback, under simpler rules.
func TestTracesOfSimplerRules(t *testing.T) {
	acts := slices.Concat(starts("0A 1A 2A 0A+ 1A+ 0B 1B 2B 0A1 1A1 0B1 1B1 0B2 1B2 2B2 0A3 1A3 2B9 2b9 0A5 1A5 0a 1a"),
		ends(0, 1, 2), cuts(0, 1, 2), disasters(), persons(), []act{button(0), button(1), adopt("A"), adopt("B")})
	for _, tt := range []struct {
		name  string
		fleet world
		way   string
		want  string
	}{
		{"a deployment is undone", fleetOf("A1 A1 A1", "A", Promoted), "0 starts B2; 3 rounds; 0 starts A1", "promoted A"},
		{"a laptop leaves", fleetOf("A1 A1", "A", Promoted), "2 starts B9; 4 rounds; 2 ends", "promoted A"},
		{"a larger generation crashes after half a minute", fleetOf("A1 A1", "A", Promoted), "2 starts B2; 3 rounds; 2 ends", "promoted A"},
		{"a forgotten generation", fleetOf("A1 A1", "A", Promoted), "0 starts B1; 1 starts B1", "shadow B"},
		{"a generation that is left out", fleetOf("A5 A5", "A", Promoted), "0 starts B; 1 starts B", "shadow B"},
		{"the other file comes and goes", fleetOf("A", "A", Promoted), "0 starts B; 5 rounds; 0 starts A", "promoted A"},
		{"a rollback of the next file is undone with it", fleetOf("A1 A1 A1", "A", Promoted),
			"0 starts B2; 4 rounds; 0 starts A1; rollback", "shadow A"},
		{"a completed file beside the next one", fleetOf("A1 A1 A1", "A", Completed), "0 starts B2; 3 rounds", "shadow B"},
		{"an idle straggler", fleetOf("a B B", "A", Promoted), "3 rounds", "shadow B"},
		{"a laptop that served and is idle", fleetOf("A A", "A", Promoted), "2 starts B9; 4 rounds; 2 starts b9", "promoted A"},
		{"an outage longer than instances count as live", fleetOf("A A B", "A", Promoted), "Redis away; 3 rounds; Redis back", "promoted A"},
		{"data lost, and the other file is first", fleetOf("A A B", "A", Promoted), "cut 0; cut 1; FLUSHALL; 1 rounds; heal 0; heal 1", "promoted A"},
		{"adopted in spite of a larger generation", fleetOf("A1 A1 B2", "B", Shadow), "adopt A", "shadow A"},
		{"the same fingerprint with a larger generation", fleetOf("A1 A1 B3", "A", Promoted), "0 starts A5; 1 starts A5; 2 ends; 2 starts B2", "promoted A"},
		{"a crash loop is no service of half a minute", fleetOf("A1 A1", "A", Promoted), "0 starts B2; 1 rounds; 0 ends; 1 rounds; 0 starts B2; 1 rounds; 0 ends", "promoted A"},
		{"data lost, a restart from disk", fleetOf("A A", "A", Promoted), "cut 0; FLUSHALL; 1 starts A; 1 rounds; 0 starts A with its disk; heal 0", "promoted A"},
		{"a rollback in an older term than an instance knows", ofAnOlderTerm(), "failover to the replica; cut 0; 1 starts A; rollback; heal 0", "rolled_back A"},
		{"a move by evidence of data that is lost", fleetOf("A", "A", Shadow), "the leader judges; FLUSHALL; 0 starts B; 1 rounds", "shadow B"},
		{"a button that is lost with a failover", fleetOf("A A", "A", Promoted), "press 0; 1 rounds; failover to the replica", "rolled_back A"},
		{"a button after the next file", fleetOf("A A", "A", Promoted), "cut 1; 0 starts B; 4 rounds; press 1; heal 1; 1 rounds; 0 ends; 3 rounds; 1 ends; 0 starts A", "rolled_back A"},
		{"a cut fleet beside a straggler", fleetOf("A2 A2 B1", "A", Promoted), "cut 0; cut 1; 4 rounds; heal 0; heal 1", "promoted A"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.fleet.follow(t, acts, tt.way); got != tt.want {
				t.Errorf("%s: rests at %s, want %s", tt.way, got, tt.want)
			}
		})
	}
}
