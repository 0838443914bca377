package promotion

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

//go:embed judged.lua
var judgedText string

// NoteJudged implements Store in one script.
func (s *RedisStore) NoteJudged(ctx context.Context, j Judgement, list []Published) error {
	args := []any{j.At.UnixMicro(), int(asOfWithin.Seconds()), j.By}
	for i := range list {
		small, large, err := list[i].texts()
		if err != nil {
			return fmt.Errorf("promotion: publish what was judged of %s: %w", list[i].Policy, err)
		}
		args = append(args, list[i].Policy, small, large)
	}

	keys := []string{s.key("judged"), s.key("assessments"), s.key("details")}
	noted, err := s.once(ctx, judgedText, keys, args...).Int()
	switch {
	case err != nil:
		return fmt.Errorf("promotion: publish what was judged: %w", humanize.Discreet(err))
	case noted < 0:
		return errStale("what was judged", j.At)
	}
	return nil
}

// texts are the two parts of an assessment, "" for one that is not there.
func (p *Published) texts() (small, large string, err error) {
	if p.Judge == "" {
		return "", "", nil
	}
	text, err := json.Marshal(p)
	if err != nil || p.Details == nil {
		return string(text), "", err
	}
	details, err := json.Marshal(p.Details)
	return string(text), string(details), err
}

// Judged implements Store.
func (s *RedisStore) Judged(ctx context.Context, policies []string) ([]Judgement, error) {
	texts, err := s.fields(ctx, "judged", policies)
	list := make([]Judgement, len(policies))
	for n, text := range texts {
		at, by, _ := strings.Cut(text, " ")
		if us, err := strconv.ParseInt(at, 10, 64); err == nil {
			list[n] = Judgement{time.UnixMicro(us).UTC(), by}
		}
	}
	return list, err
}

// Assessments implements Store.
func (s *RedisStore) Assessments(ctx context.Context, policies []string) ([]Published, error) {
	texts, err := s.fields(ctx, "assessments", policies)
	list := make([]Published, len(policies))
	for n, text := range texts {
		var p Published
		if json.Unmarshal([]byte(text), &p) == nil && p.Policy == policies[n] {
			list[n] = p
		}
	}
	return list, err
}

// Details implements Store.
func (s *RedisStore) Details(ctx context.Context, policies []string) ([]*Details, error) {
	texts, err := s.fields(ctx, "details", policies)
	list := make([]*Details, len(policies))
	for n, text := range texts {
		d := &Details{}
		if json.Unmarshal([]byte(text), d) == nil {
			list[n] = d
		}
	}
	return list, err
}

// fields reads some fields of one of the fleet's hashes, "" for one that is not there.
func (s *RedisStore) fields(ctx context.Context, what string, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	values, err := s.rdb.HMGet(ctx, s.key(what), names...).Result()
	if err != nil && !absent(err) {
		return nil, fmt.Errorf("promotion: read %s: %w", what, humanize.Discreet(err))
	}

	texts := make([]string, len(names))
	for n, v := range values {
		texts[n], _ = v.(string)
	}
	return texts, nil
}
