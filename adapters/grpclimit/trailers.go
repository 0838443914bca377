package grpclimit

import (
	"context"
	"errors"
	"reflect"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/shadowlimit/shadowlimit/internal/view"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// trailers are the response fields of one call as metadata, which share one array of values. Those that are used again keep their
// names, because most calls have the same fields.
type trailers struct {
	md      metadata.MD // by fields
	names   [8]string
	values  [8]string
	count   int
	renamed bool // md has other names

	// texts are values of this call and of earlier ones. They are never written again, because those calls may still have them.
	texts []byte
}

// textsAtOnce is the memory of the values of some twenty unary calls. One that lasts keeps all of it.
const textsAtOnce = 1024

func newTrailers() *trailers { return &trailers{md: metadata.MD{}} }

func (t *trailers) add(name, value string) {
	t.values[t.count] = value
	if t.names[t.count] != name {
		t.names[t.count] = name
		t.renamed = true
	}
	t.count++
}

// fields returns the fields. Each has a slice without spare capacity, so that an append does not write into the next.
func (t *trailers) fields() metadata.MD {
	if !t.renamed && len(t.md) == t.count {
		return t.md
	}

	clear(t.md)
	for i, name := range t.names[:t.count] {
		t.md[name] = t.values[i : i+1 : i+1]
	}
	t.renamed = false
	return t.md
}

// empty makes trailers ready for the next call.
func (t *trailers) empty() { t.count = 0 }

// debugField is the name of httplimit.DebugField in metadata.
var debugField = strings.ToLower(httplimit.DebugField)

// fill adds the fields of a decision.
func (i *Interceptors) fill(ctx context.Context, t *trailers, d *shadow.Decision) {
	var fields httplimit.FieldList
	t.texts = i.AppendFields(&fields, t.texts, d)
	for _, field := range fields.All() {
		t.add(field.Name.Lower, field.Value)
	}
	if i.cfg.Debug != nil && i.cfg.Debug(ctx) {
		t.add(debugField, httplimit.Debug(*d))
	}
}

// trail sets the trailers of a unary call. A map of metadata costs two allocations, which are spared where the transport
// copies what it is given. Another transport may keep the map, and must not see it change.
func (i *Interceptors) trail(ctx context.Context, t *trailers, d *shadow.Decision) {
	stream := grpc.ServerTransportStreamFromContext(ctx)
	if stream == nil {
		return // called without a server: there is no place for trailers
	}
	if !i.copied(stream) {
		t := newTrailers()
		i.fill(ctx, t, d)
		stream.SetTrailer(t.fields())
		return
	}

	// The values that do not fit begin the next piece of memory.
	if cap(t.texts)-len(t.texts) < view.FieldBytes {
		t.texts = make([]byte, 0, textsAtOnce)
	}
	i.fill(ctx, t, d)
	stream.SetTrailer(t.fields())
}

// isOfGRPC reports whether a stream is of gRPC's own transport, whose SetTrailer joins trailers into a new map.
func isOfGRPC(stream grpc.ServerTransportStream) bool {
	t := reflect.TypeOf(stream)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "google.golang.org/grpc/internal/transport"
}

// whenFull returns the trailers of a call that is refused because too many are waiting, nil for any other.
func (i *Interceptors) whenFull(d shadow.Decision, err error) metadata.MD {
	if !errors.Is(err, httplimit.ErrFull) {
		return nil
	}
	return metadata.Pairs("retry-after", httplimit.FormatSeconds(httplimit.RetryWhenFull(d)))
}
