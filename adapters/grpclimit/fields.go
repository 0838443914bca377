package grpclimit

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/internal/view"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// fields are the response fields of one call as metadata, which share one array of values. Those that are used again keep their
// names, because most calls have the same fields.
type fields struct {
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

func newFields() *fields { return &fields{md: metadata.MD{}} }

func (f *fields) add(name, value string) {
	f.values[f.count] = value
	if f.names[f.count] != name {
		f.names[f.count] = name
		f.renamed = true
	}
	f.count++
}

// metadata returns the fields. Each has a slice without spare capacity, so that an append does not write into the next.
func (f *fields) metadata() metadata.MD {
	if !f.renamed && len(f.md) == f.count {
		return f.md
	}

	clear(f.md)
	for i, name := range f.names[:f.count] {
		f.md[name] = f.values[i : i+1 : i+1]
	}
	f.renamed = false
	return f.md
}

// empty makes fields ready for the next call.
func (f *fields) empty() { f.count = 0 }

// debugField is the name of limits.DebugField in metadata.
var debugField = strings.ToLower(limits.DebugField)

// pushback is the wait in milliseconds that a client with a retryPolicy keeps to (gRFC A6). It does not look at RetryInfo.
const pushback = "grpc-retry-pushback-ms"

// fill adds the fields of a decision.
func (i *Interceptors) fill(ctx context.Context, f *fields, d *shadow.Decision) {
	var list limits.FieldList
	f.texts = i.limits.AppendFields(&list, f.texts, d)
	for _, field := range list.All() {
		f.add(field.Name.Lower, field.Value)
	}
	if i.cfg.Debug != nil && i.cfg.Debug(ctx) {
		f.add(debugField, limits.Debug(*d))
	}

	switch {
	case d.Allowed || d.RetryAfter <= 0:
	case d.RetryAfter == algorithms.Never:
		f.add(pushback, "-1") // do not repeat it
	default:
		f.add(pushback, milliseconds(d.RetryAfter))
	}
}

// milliseconds rounds up, because a client that returns too early is denied again.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d-1)/time.Millisecond)+1, 10)
}

// told is how a call is told its fields. They must not stand in a trailer section. A call that ends with an error and without a message
// has one section only, which gRPC takes for trailers and HTTP for a header. It stays one: for a client, a header
// ends the time in which a call may be repeated by a retryPolicy. So fields become a header with the first message, and not before.
type told func(grpc.ServerTransportStream, metadata.MD) error

var (
	asHeader  told = grpc.ServerTransportStream.SetHeader
	asTrailer told = grpc.ServerTransportStream.SetTrailer
)

// tell tells a unary call its fields. A map of metadata costs two allocations, which are spared where the transport
// copies what it is given. Another transport may keep the map, and must not see it change.
func (i *Interceptors) tell(ctx context.Context, how told, d *shadow.Decision) {
	stream := grpc.ServerTransportStreamFromContext(ctx)
	if stream == nil {
		return // called without a server: there is no place for fields
	}
	if !i.copied(stream) {
		f := newFields()
		i.fill(ctx, f, d)
		how(stream, f.metadata())
		return
	}

	// The values that do not fit begin the next piece of memory.
	c := calls.Get().(*call)
	f := c.fields
	if cap(f.texts)-len(f.texts) < view.FieldBytes {
		f.texts = make([]byte, 0, textsAtOnce)
	}
	i.fill(ctx, f, d)
	how(stream, f.metadata())
	c.giveBack()
}

// isOfGRPC reports whether a stream is of gRPC's own transport, which joins the metadata that it is given into a new map.
func isOfGRPC(stream grpc.ServerTransportStream) bool {
	t := reflect.TypeOf(stream)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "google.golang.org/grpc/internal/transport"
}

// whenFull returns the trailers of a call that is refused because too many are waiting, nil for any other.
func (i *Interceptors) whenFull(d shadow.Decision, err error) metadata.MD {
	if !errors.Is(err, limits.ErrFull) {
		return nil
	}
	after := limits.RetryWhenFull(d)
	return metadata.Pairs("retry-after", limits.FormatSeconds(after), pushback, milliseconds(after))
}

// tellingStream tells a stream its fields as a header with the first message, or with the header of the handler.
type tellingStream struct {
	grpc.ServerStream
	fields metadata.MD // nil once they are told
	ctx    context.Context
}

// Context implements grpc.ServerStream.
func (s *tellingStream) Context() context.Context { return s.ctx }

// SendHeader implements grpc.ServerStream.
func (s *tellingStream) SendHeader(md metadata.MD) error {
	s.tell()
	return s.ServerStream.SendHeader(md)
}

// SendMsg implements grpc.ServerStream.
func (s *tellingStream) SendMsg(message any) error {
	s.tell()
	return s.ServerStream.SendMsg(message)
}

func (s *tellingStream) tell() {
	if s.fields != nil {
		s.ServerStream.SetHeader(s.fields) // an error means that the header was sent: there is no place for fields any more
		s.fields = nil
	}
}

// end tells a stream its fields that has sent nothing.
func (s *tellingStream) end() {
	if s.fields != nil {
		s.ServerStream.SetTrailer(s.fields)
	}
}
