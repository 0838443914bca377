package divergence

import (
	"fmt"
	"strconv"
	"strings"
)

// Record is what a writer has counted and no judge has folded yet, as far as the writer knows. Each write replaces the one
// before. A batch does not change once it is sealed, so a record that is written twice, late or never counts nothing twice.
type Record struct {
	// Batch is the number of the sealed batch, 0 before the first. Open becomes batch Batch+1.
	Batch int64
	// Seq grows with each record of the writer, so that a judge sees that the writer is there.
	Seq int64
	// Sealed waits for a fold, and Open is everything since, in order of hours.
	Sealed, Open []Hour
}

// unfolded returns the hours that no fold has counted. A late record may be of a batch before the last, and then its open
// hours are a part of a batch that is folded.
func (r *Record) unfolded(ack Ack) (hours []Hour) {
	if ack.Ended > 0 {
		return nil
	}
	if r.Batch > ack.Batch {
		hours = append(hours, r.Sealed...)
	}
	if r.Batch >= ack.Batch {
		hours = append(hours, r.Open...)
	}
	return hours
}

// Ack is what folds have counted of a writer.
type Ack struct {
	// Batch is the last batch.
	Batch int64
	// Ended is the hour in which a judge counted everything that the writer had in the ledger, because its instance was
	// gone. Nothing that it writes counts any more. 0: it goes on.
	Ended int64
}

// endedPrefix begins the text of an Ack that has ended.
const endedPrefix = "ended "

// String returns the ack as the ledger stores it, which parseAck reads.
func (a Ack) String() string {
	if a.Ended > 0 {
		return endedPrefix + strconv.FormatInt(a.Ended, 10)
	}
	return strconv.FormatInt(a.Batch, 10)
}

// parseAck reads an ack. Other programs can write to the ledger, so a text that is none is an error and no zero.
func parseAck(text string) (a Ack, err error) {
	if hour, ended := strings.CutPrefix(text, endedPrefix); ended {
		a.Ended, err = strconv.ParseInt(hour, 10, 64)
	} else {
		a.Batch, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil || a.Batch < 0 || a.Ended < 0 {
		return Ack{}, fmt.Errorf("%q is no batch", text)
	}
	return a, nil
}

// Writer is an instance's recorder in the ledger. Incarnation 0 has the instance's plain name.
type Writer struct {
	Instance    string
	Incarnation int64
}

// String returns the name of the writer's fields in Redis, which parseWriter reads.
func (w Writer) String() string {
	if w.Incarnation == 0 {
		return w.Instance
	}
	return w.Instance + "#" + strconv.FormatInt(w.Incarnation, 10)
}

// parseWriter reads a writer's name. An instance's name may have a # in it that no number follows.
func parseWriter(name string) Writer {
	if i := strings.LastIndexByte(name, '#'); i >= 0 {
		if n, err := strconv.ParseInt(name[i+1:], 10, 64); err == nil && n > 0 {
			return Writer{name[:i], n}
		}
	}
	return Writer{Instance: name}
}

// packedRecord is a Record as it is stored in JSON, hours by their number.
type packedRecord struct {
	Batch  int64                `json:"n"`
	Seq    int64                `json:"seq"`
	Sealed map[int64]packedHour `json:"sealed,omitempty"`
	Open   map[int64]packedHour `json:"open,omitempty"`
}

// packRecord makes the form of a record that is stored.
func packRecord(r *Record) packedRecord {
	return packedRecord{r.Batch, r.Seq, packHours(r.Sealed), packHours(r.Open)}
}

// packHours makes the form of hours that is stored, by their numbers.
func packHours(hours []Hour) map[int64]packedHour {
	out := make(map[int64]packedHour, len(hours))
	for i := range hours {
		out[hours[i].Unix] = packed(&hours[i])
	}
	return out
}

// unpack checks what becomes an index: other programs can write to the ledger.
func (p *packedRecord) unpack() (Record, error) {
	sealed, err := unpackHours(p.Sealed)
	if err != nil {
		return Record{}, err
	}
	open, err := unpackHours(p.Open)
	if err != nil {
		return Record{}, err
	}
	if p.Batch < 0 {
		return Record{}, fmt.Errorf("batch %d", p.Batch)
	}
	return Record{p.Batch, p.Seq, sealed, open}, nil
}

// unpackHours reads hours that were stored, and puts them in order: a map of JSON has none.
func unpackHours(packed map[int64]packedHour) (hours []Hour, err error) {
	for unix, p := range packed {
		h, err := p.unpack(unix)
		if err != nil {
			return nil, err
		}
		hours = append(hours, h)
	}
	sortHours(hours)
	return hours, nil
}
