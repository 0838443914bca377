package suggest

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// mostRequests is how many requests are kept at 24 bytes each, and again at 16 while proposals are made: less than 1 GB.
const mostRequests = 20_000_000

// Requests are those of a log, in any order. The zero value is empty and ready to use.
//
// All are kept until there are too many. From then on every second client is left out with all of its requests, and again whenever there
// are too many: what remains is a sample of clients, each whole.
type Requests struct {
	list   []request
	names  []string
	index  map[string]uint32
	total  int64
	halved int // how many times the clients were
	most   int // 0 is mostRequests
}

type request struct {
	at, cost int64 // microseconds since the Unix epoch, units
	key      uint32
}

// Add appends a request of a key at an instant in microseconds since the Unix epoch. It copies the key.
func (r *Requests) Add(at int64, key []byte, cost int64) {
	r.total++
	id, known := r.index[string(key)]
	if !known {
		if !r.sampled(string(key)) {
			return
		}
		if r.index == nil {
			r.index = map[string]uint32{}
		}
		id = uint32(len(r.names))
		name := string(key)
		r.names = append(r.names, algorithms.BoundedKey(name))
		r.index[name] = id
	}
	r.list = append(r.list, request{at, cost, id})

	if len(r.list) > cmp.Or(r.most, mostRequests) {
		r.halve()
	}
}

// seed makes the sample of a log the same within a run only: nothing depends on which clients are in it.
var seed = maphash.MakeSeed()

// sampled reports whether a client is in the sample.
func (r *Requests) sampled(key string) bool {
	return r.halved == 0 || maphash.String(seed, key)&(1<<r.halved-1) == 0
}

// halve leaves out every second client.
func (r *Requests) halve() {
	r.halved++
	kept := make([]uint32, len(r.names)) // the new number of a client, from 1 on
	var names []string
	for key, id := range r.index {
		if !r.sampled(key) {
			delete(r.index, key)
			continue
		}
		names = append(names, r.names[id])
		kept[id] = uint32(len(names))
		r.index[key] = kept[id] - 1
	}
	r.names = names

	r.list = slices.DeleteFunc(r.list, func(q request) bool { return kept[q.key] == 0 })
	for i := range r.list {
		r.list[i].key = kept[r.list[i].key] - 1
	}
}

// Len returns the number of requests.
func (r *Requests) Len() int { return int(r.total) }

// Keys returns the distinct keys that are kept. The caller must not change them.
func (r *Requests) Keys() []string { return r.names }

// Busiest returns the key with the most requests, and their number.
func (r *Requests) Busiest() (key string, requests int64) {
	counts := make([]int64, len(r.names))
	for _, q := range r.list {
		counts[q.key]++
	}
	for id, n := range counts {
		if n > requests {
			key, requests = r.names[id], n
		}
	}
	return key, requests
}

// clients groups the requests by their keys. Those without a cost only look, and count nowhere.
func (r *Requests) clients() []client {
	starts := make([]int, len(r.names)+1)
	for _, q := range r.list {
		if q.cost > 0 {
			starts[q.key+1]++
		}
	}
	for i := range r.names {
		starts[i+1] += starts[i]
	}

	at, costs := make([]int64, starts[len(r.names)]), make([]int64, starts[len(r.names)])
	next := slices.Clone(starts)
	for _, q := range r.list {
		if q.cost > 0 {
			at[next[q.key]], costs[next[q.key]] = q.at, q.cost
			next[q.key]++
		}
	}

	list := make([]client, 0, len(r.names))
	for i, name := range r.names {
		if from, to := starts[i], starts[i+1]; from < to {
			c := client{name: name, at: at[from:to], costs: costs[from:to]}
			c.sort()
			list = append(list, c)
		}
	}
	return list
}
