package grpclimit

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// trailers are the response fields of one call as metadata, which share one array of values.
type trailers struct {
	md     metadata.MD
	values [8]string
	count  int
}

var reused = sync.Pool{New: func() any { return &trailers{md: metadata.MD{}} }}

// add adds a field. Each has a slice without spare capacity, so that an append does not write into the next.
func (t *trailers) add(name, value string) {
	t.values[t.count] = value
	t.md[name] = t.values[t.count : t.count+1 : t.count+1]
	t.count++
}

// names are the names of response fields in metadata. The map spares an allocation for each of them.
var names = map[string]string{}

func init() {
	for _, name := range []string{
		"Retry-After", "Ratelimit-Policy", "Ratelimit", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset",
		"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", httplimit.DebugField,
	} {
		names[name] = strings.ToLower(name)
	}
}

// fill adds the fields of a decision.
func (i *Interceptors) fill(ctx context.Context, t *trailers, d shadow.Decision) {
	fields := i.FieldsOf(d)
	for _, field := range fields.All() {
		t.add(names[field.Name], field.Value)
	}
	if i.cfg.Debug != nil && i.cfg.Debug(ctx) {
		t.add(names[httplimit.DebugField], httplimit.Debug(d))
	}
}

// trail sets the trailers of a unary call. A map of metadata costs two allocations, which are spared where the transport
// copies what it is given. Another transport may keep the map, and must not see it change.
func (i *Interceptors) trail(ctx context.Context, d shadow.Decision) {
	stream := grpc.ServerTransportStreamFromContext(ctx)
	if stream == nil {
		return // called without a server: there is no place for trailers
	}
	if !i.copied(stream) {
		t := &trailers{md: metadata.MD{}}
		i.fill(ctx, t, d)
		stream.SetTrailer(t.md)
		return
	}

	t := reused.Get().(*trailers)
	i.fill(ctx, t, d)
	stream.SetTrailer(t.md)
	clear(t.md)
	clear(t.values[:t.count])
	t.count = 0
	reused.Put(t)
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
	return metadata.Pairs(names["Retry-After"], httplimit.FormatSeconds(httplimit.RetryWhenFull(d)))
}
