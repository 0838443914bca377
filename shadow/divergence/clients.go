package divergence

import (
	"cmp"
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

const (
	// SampledClients is how many clients of an hour are counted each for itself: those of the least hashes.
	SampledClients = 4096
	// ProtectedClients is how many protected keys of an hour are counted. Beyond that the keys of the least hashes are.
	ProtectedClients = 10_000

	// LeastLost is how many requests a protected key must lose within an hour before that counts.
	LeastLost = 20
	// clientHours is how long clients are kept each for itself. Afterwards an hour has the protected keys that lost LeastLost.
	clientHours = 26

	// namedClients is how many clients of a list have a name: the ones with most losses.
	namedClients = 20
)

// ClientCount counts a client's requests: with two answers; allowed by the authoritative; of these lost, because the candidate denied
// them; and gained, which are denied by the authoritative and allowed by the candidate.
type ClientCount struct{ Requests, Allowed, Lost, Gained int64 }

// Add adds another count.
func (c *ClientCount) Add(other ClientCount) {
	c.Requests += other.Requests
	c.Allowed += other.Allowed
	c.Lost += other.Lost
	c.Gained += other.Gained
}

// Missing returns how many requests fewer the candidate allows than the authoritative. Of a client that is over its limit two sides of one
// rate deny different requests, and as many.
func (c ClientCount) Missing() int64 { return max(0, c.Lost-c.Gained) }

// Loses reports whether a share of what the authoritative allows is lost, and anything at all. It is what tables show.
func (c ClientCount) Loses(share float64) bool {
	return c.Lost > 0 && float64(c.Lost) >= share*float64(c.Allowed)
}

// Misses is Loses for the rules of clients: what a client gains makes up for what it loses.
func (c ClientCount) Misses(share float64) bool {
	return c.Missing() > 0 && float64(c.Missing()) >= share*float64(c.Allowed)
}

// OverLimit reports whether the authoritative denied the client anything.
func (c ClientCount) OverLimit() bool { return c.Allowed < c.Requests }

// Client is the counts of one key.
type Client struct {
	// Hash identifies the key among all that a policy has. It has 48 bits and is never 0.
	Hash uint64
	// Counts by the enforced role.
	Counts [2]ClientCount
	// Name is the key, masked if there is a secret; "" unless the key is one of the named ones.
	Name string
	// Causes of what it lost; nil where it has no Name. They may be of a part of the losses:
	// a list keeps them for the clients that lose most, and another list may have had others. They are never changed.
	Causes *ClientCauses
}

// ClientCauses count the losses of a client by Cause.
type ClientCauses [causes]int64

// Most returns the cause that most losses have, and its share of those with a cause; 0 for nil or none.
func (c *ClientCauses) Most() (most Cause, share float64) {
	if c == nil {
		return 0, 0
	}
	var sum int64
	for cause, n := range c {
		sum += n
		if n > c[most] {
			most = Cause(cause)
		}
	}
	return most, float64(c[most]) / float64(max(1, sum))
}

// joinCauses adds up two counts, either of which may be nil.
func joinCauses(a, b *ClientCauses) *ClientCauses {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a
	for cause, n := range b {
		sum[cause] += n
	}
	return &sum
}

// Total returns the counts whichever side was enforced.
func (c *Client) Total() ClientCount {
	sum := c.Counts[algorithms.Authoritative]
	sum.Add(c.Counts[algorithms.Candidate])
	return sum
}

// Clients are the exact counts of all keys whose hash is less than Below, in the order of their hashes.
//
// This is a sample of the keys of least hash (bottom-k; Cohen and Kaplan 2007). A list that would have more than k clients
// lowers Below to the first hash that it leaves out. Within an hour Below never rises. So a key below the Below of a joined list was
// below the bound of every part, from its first request on, and its counts are complete: in any order, over any number of
// instances, batches and hours.
type Clients struct {
	// Below is 0 where no key had to be left out.
	Below uint64
	// List is never changed once it is made, so lists may be shared.
	List []Client
}

// Join adds what another observer saw. Of more clients than most it keeps those of least hash.
func (c *Clients) Join(other *Clients, most int) {
	below, joined := joinSamples(c.Below, c.List, other.Below, other.List, most)
	*c = Clients{below, named(joined)}
}

// place orders clients in a sample.
func (c *Client) place() uint64 { return c.Hash }

// join adds what another observer saw of the same client. Any of its names will do: they are all of one key.
func (c *Client) join(other *Client) {
	c.Name = cmp.Or(c.Name, other.Name)
	c.Causes = joinCauses(c.Causes, other.Causes)
	for role := range c.Counts {
		c.Counts[role].Add(other.Counts[role])
	}
}

// named returns a list in which only the clients that lose most have their names and causes, which bounds the bytes of a list.
func named(list []Client) []Client {
	var with []int
	for i := range list {
		if list[i].Name != "" {
			with = append(with, i)
		}
	}
	if len(with) <= namedClients {
		return list
	}

	slices.SortFunc(with, func(a, b int) int {
		x, y := list[a].Total(), list[b].Total()
		return cmp.Or(cmp.Compare(y.Missing(), x.Missing()), cmp.Compare(y.Lost, x.Lost), cmp.Compare(a, b))
	})
	list = slices.Clone(list)
	for _, i := range with[namedClients:] {
		list[i].Name, list[i].Causes = "", nil
	}
	return list
}

// Find returns the client of a hash, or nil.
func (c *Clients) Find(hash uint64) *Client {
	if i, found := search(c.List, hash); found {
		return &c.List[i]
	}
	return nil
}

// Worst returns at most n clients with at least ofAtLeast requests, the ones that lose most of their own requests first.
func (c *Clients) Worst(n int, ofAtLeast int64) []Client {
	var list []Client
	for i := range c.List {
		if t := c.List[i].Total(); t.Lost > 0 && t.Requests >= ofAtLeast {
			list = append(list, c.List[i])
		}
	}
	slices.SortFunc(list, func(a, b Client) int {
		x, y := a.Total(), b.Total()
		return cmp.Or(cmp.Compare(float64(y.Lost)/float64(y.Allowed), float64(x.Lost)/float64(x.Allowed)),
			cmp.Compare(y.Lost, x.Lost), cmp.Compare(a.Hash, b.Hash))
	})
	return list[:min(n, len(list))]
}

// thin leaves out what an old hour need not have, and reports whether there was any.
func (h *Hour) thin() (thinned bool) {
	n := len(h.Protected.List)
	h.Protected.List = slices.DeleteFunc(slices.Clone(h.Protected.List), func(c Client) bool { return c.Total().Lost < LeastLost })
	thinned = h.Clients.Below != 0 || len(h.Clients.List) > 0 || len(h.Protected.List) < n
	h.Clients = Clients{}
	return thinned
}

// thinBefore thins all hours before one.
func (h *History) thinBefore(hour int64) {
	for i := 0; i < len(h.Hours) && h.Hours[i].Unix < hour; i++ {
		h.Hours[i].thin()
	}
}

// Since returns what clients have done since an earlier list of the same hour.
func (c *Clients) Since(earlier *Clients) Clients {
	list := make([]Client, 0, len(c.List))
	for _, one := range c.List {
		if before := earlier.Find(one.Hash); before != nil {
			for role := range one.Counts {
				one.Counts[role].subtract(before.Counts[role])
			}
		}
		list = append(list, one)
	}
	return Clients{c.Below, list}
}

// subtract takes an earlier count away. After a loss of data the earlier one may be larger.
func (c *ClientCount) subtract(earlier ClientCount) {
	c.Requests = max(0, c.Requests-earlier.Requests)
	c.Allowed = max(0, c.Allowed-earlier.Allowed)
	c.Lost = max(0, c.Lost-earlier.Lost)
	c.Gained = max(0, c.Gained-earlier.Gained)
}
