// Package view is what policies and hooks see of a request that is not one of net/http. The adapters of frameworks with requests of
// their own copy into it what policies read, and no more.
package view

import (
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/policies"
)

// FieldBytes is room for the values of the response fields of one decision, unless they are unusually long.
const FieldBytes = 160

// View is one request. Views are used again, with their headers and the places of values, so that a request costs no
// allocation but its texts.
type View struct {
	// Seen is what policies see.
	Seen policies.Request
	// Texts is room for the values of the response fields.
	Texts [FieldBytes]byte

	hooked http.Request          // what a hook sees: Header and RemoteAddr
	names  []policies.HeaderName // of the headers, if they are those of Name
	texts  []string              // the values of these
	lists  [][]string            // for each name, the part of texts that the header has
	peer   netip.AddrPort        // of the last connection, with its address as a text
	host   string
}

// New returns an empty view.
func New() *View { return &View{hooked: http.Request{Header: http.Header{}}} }

var views = sync.Pool{New: func() any { return New() }}

// Get returns an empty view, to be given back after the decision.
func Get() *View { return views.Get().(*View) }

// GiveBack empties a view of Get.
func (v *View) GiveBack() {
	v.Empty()
	views.Put(v)
}

// Empty makes a view ready for the next request. The names of its headers stay, because most requests have those that policies read, and
// so do its texts and its peer, which the next request may have, too.
func (v *View) Empty() {
	v.Seen.Reset()
	v.hooked.RemoteAddr = ""
	v.texts = v.texts[:0]
	if v.names == nil {
		clear(v.hooked.Header)
	}
}

// Name makes the headers of a view those with the names, whose values are appended to a list. Host is none of them: policies
// have it as a field.
func (v *View) Name(names []policies.HeaderName, values func(list []string, name policies.HeaderName) []string) {
	if !same(names, v.names) {
		clear(v.hooked.Header)
		v.names = names
		clear(v.lists)
		v.lists = append(v.lists[:0], make([][]string, len(names))...)
	}

	// A header without values is an absent one. Most headers have as many values as those of the request before, and at the same place,
	// so that the map has them already.
	for i, name := range names {
		n := len(v.texts)
		if name.Lower != "host" {
			v.texts = values(v.texts, name)
		}
		if list := v.texts[n:len(v.texts):len(v.texts)]; v.lists[i] == nil || !same(list, v.lists[i]) {
			v.lists[i] = list
			v.hooked.Header[name.Canonical] = list
		}
	}
	v.Seen.Headers = v.hooked.Header
}

// AppendText appends a text to the values of a header. It is the text that stood there in an earlier request, if that was the same:
// headers such as a plan have few values, and most need no allocation.
func AppendText(list []string, value []byte) []string {
	if n := len(list); n < cap(list) && list[:n+1][n] == string(value) {
		return list[:n+1]
	}
	return append(list, string(value))
}

// same reports whether two lists are one in memory. Comparing the names would take longer than filling the headers.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Changed says that a hook of the service may have changed the headers. No request gets those of another one.
func (v *View) Changed() { v.names = nil }

// All returns the headers of a view, for a request whose headers may all be read.
func (v *View) All() http.Header {
	if v.names != nil {
		clear(v.hooked.Header)
		v.names = nil
	}

	v.Seen.Headers = v.hooked.Header
	return v.hooked.Header
}

// Address returns the client's address: the peer's, or what a hook makes of it and of the headers.
func (v *View) Address(peer net.Addr, hook func(*http.Request) string) string {
	// Nearly all connections are of TCP. A peer has one allocation until another one comes: a proxy, or another service, has many
	// requests.
	if tcp, ok := peer.(*net.TCPAddr); ok && hook == nil {
		if from := tcp.AddrPort(); from != v.peer {
			v.peer = from
			v.host = from.Addr().Unmap().WithZone("").String()
		}
		return v.host
	}

	v.hooked.RemoteAddr = peer.String()
	if hook == nil {
		hook = limits.PeerIP
	}
	return hook(&v.hooked)
}
