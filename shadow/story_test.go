package shadow

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/fleet"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// story is a fleet of harnesses on one store, as a file of testdata/stories tells it. It runs in a
// bubble of synctest. A line is a command of an operator or a disaster:
//
//	start NAME file N [generation G] [idle]   a process, which serves a request a second unless idle
//	serve NAME                                an idle one begins to
//	deploy NAME file N [generation G]         stop it and start it with another file, with the same disk
//	stop NAME, kill NAME                      with and without a goodbye
//	cut NAME, heal NAME                       it does not reach the store, and does
//	store away, store back                    nobody reaches it
//	store empties                             it loses all data
//	store saves, store returns                to the states that it had when it saved
//	wait 20s
//	canary 10, promote, complete, rollback, pause, resume, adopt N
//	press NAME, release NAME                  its red button
//	who leads                                 for a story in which chance does not decide that
//
// Below ---- stands what was stored since and how the fleet is afterwards.
type story struct {
	t      *testing.T
	dir    string // for the disks of processes
	ledger evidence.Ledger
	nodes  []*storyNode // that run

	mu      sync.Mutex
	primary *stages.MemoryStore
	saved   []stages.State // at most one
	away    bool
	stored  []stages.State // all that were
	leads   bool           // somebody has asked who leads
	events  []string       // since they were last printed
}

// storyNode is a process.
type storyNode struct {
	*Harness
	name       string
	link       *storyLink
	file       int
	generation int64
	idle       bool
}

// storyLink is the connection of a process to the store.
type storyLink struct {
	*story
	cut bool
}

const storyPolicy = "p"

// storyFile is a policy file. Each number has another candidate.
func storyFile(n int, generation int64) *policies.Set {
	text := "version: 1\nname: story\n"
	if generation > 0 {
		text += fmt.Sprintf("generation: %d\n", generation)
	}
	set, err := policies.Load(fmt.Sprintf("file-%d.yaml", n), []byte(text+"policies:\n  - name: "+storyPolicy+"\n    key: request.user\n"+
		"    authoritative: { algorithm: fixed_window, limit: 1000, window: 1m }\n"+
		fmt.Sprintf("    candidate: { algorithm: token_bucket, limit: %d, window: 1m }\n", 1000+n)))
	if err != nil {
		panic(err)
	}
	return set
}

// storyFiles is how many different files a story may have.
const storyFiles = 4

// fileNames replaces the fingerprints of files by their names.
func fileNames() *strings.Replacer {
	var pairs []string
	for n := 1; n <= storyFiles; n++ {
		pairs = append(pairs, storyFile(n, 0).Policies[0].Fingerprint(), fmt.Sprint("file ", n))
	}
	return strings.NewReplacer(pairs...)
}

// reach returns the store, if the link works.
func (l *storyLink) reach() (*stages.MemoryStore, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.away {
		return nil, errors.New("out of reach")
	}
	return l.primary, nil
}

func (l *storyLink) States(ctx context.Context, names []string) ([]stages.State, error) {
	s, err := l.reach()
	if err != nil {
		return nil, err
	}
	return s.States(ctx, names)
}

func (l *storyLink) Put(ctx context.Context, policy string, next stages.State, only stages.Condition) error {
	s, err := l.reach()
	if err != nil {
		return err
	}
	if err := s.Put(ctx, policy, next, only); err != nil {
		return err
	}
	l.note(next)
	return nil
}

// note notes a state that was stored. Who stores one again after a loss of data depends on who comes first.
func (l *storyLink) note(next stages.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again := slices.ContainsFunc(l.story.stored, func(s stages.State) bool { return s.Version == next.Version && s.At.Equal(next.At) })
	l.story.stored = append(l.story.stored, next)
	what := fmt.Sprintf("%s, generation %d", describeState(next), next.Generation)
	if again {
		l.events = append(l.events, "an instance stores again: "+what)
		return
	}
	actor := next.Actor
	if strings.HasPrefix(next.Actor, "leader ") {
		actor = "the leader" // whichever that is
	}
	l.events = append(l.events, fmt.Sprintf("%s stores: %s: %s", actor, what, next.Reason))
}

func (l *storyLink) History(ctx context.Context, policy string) ([]stages.State, error) {
	s, err := l.reach()
	if err != nil {
		return nil, err
	}
	return s.History(ctx, policy)
}

func (l *storyLink) Heartbeat(ctx context.Context, h stages.Heartbeat) (stages.Heard, error) {
	s, err := l.reach()
	if err != nil {
		return stages.Heard{}, err
	}
	return s.Heartbeat(ctx, h)
}

func (l *storyLink) Fleet(ctx context.Context) (stages.Fleet, error) {
	s, err := l.reach()
	if err != nil {
		return stages.Fleet{}, err
	}
	return s.Fleet(ctx)
}

func (l *storyLink) Publish(ctx context.Context, f stages.Findings) error {
	s, err := l.reach()
	if err != nil {
		return err
	}
	return s.Publish(ctx, f)
}

func (l *storyLink) Published(ctx context.Context, names []string, details bool) ([]stages.Published, error) {
	s, err := l.reach()
	if err != nil {
		return nil, err
	}
	return s.Published(ctx, names, details)
}

// Watch is of the store as it is now. After a loss of data changes are heard of by the next heartbeat.
func (l *storyLink) Tell(ctx context.Context, t stages.Telling) (stages.Told, error) {
	s, err := l.reach()
	if err != nil {
		return stages.Told{}, err
	}
	return s.Tell(ctx, t)
}

func (l *storyLink) Watch(ctx context.Context) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.primary.Watch(ctx)
}

// describeState writes a state without its hash.
func describeState(s stages.State) string {
	text := s.Describe() + " of " + s.Fingerprint
	if s.Term > 1000 { // a rollback's is the store's clock
		return text + ", term of a rollback"
	}
	return text
}

// start starts a process.
func (s *story) start(name string, file int, generation int64, idle bool) error {
	if s.node(name) != nil {
		return fmt.Errorf("%s runs", name)
	}
	n := &storyNode{name: name, link: &storyLink{story: s}, file: file, generation: generation, idle: idle}
	log := slog.New(slog.DiscardHandler)
	disk, err := fleet.NewDisk(s.dir, "story", name)
	if err != nil {
		return err
	}
	n.Harness = &Harness{unwatch: func() {}}
	n.instance = assemble(instanceConfig{name: "story", id: name, log: log}, engine.NewOn("story", []*engine.Store{engine.NewMemoryStore()}, nil), shared{store: n.link, ledger: s.ledger, disk: disk})
	p, err := n.planOf(storyFile(file, generation), &engine.Plan{})
	if err != nil {
		return err
	}
	n.instance.use(p)
	if err := n.instance.start(context.Background()); err != nil {
		return err
	}
	s.nodes = append(s.nodes, n)
	s.serve(n)
	return nil
}

func (s *story) say(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, what)
}

// serve has a process decide a request.
func (s *story) serve(n *storyNode) {
	if !n.idle {
		n.Decide(context.Background(), &policies.Request{User: "ann"})
	}
}

// end ends a process. One that is killed says nothing more to the store.
func (s *story) end(n *storyNode, killed bool) error {
	s.nodes = slices.DeleteFunc(s.nodes, func(other *storyNode) bool { return other == n })
	s.mu.Lock()
	n.link.cut = n.link.cut || killed
	s.mu.Unlock()
	if err := n.Close(context.Background()); err != nil && !killed {
		s.say(n.name + " could not say goodbye")
	}
	return nil
}

// wait lets time pass in which processes serve.
func (s *story) wait(d time.Duration) error {
	for ; d > 0; d -= time.Second {
		time.Sleep(min(d, time.Second))
		for _, n := range s.nodes {
			s.serve(n)
		}
	}
	return nil
}

func (s *story) node(name string) *storyNode {
	for _, n := range s.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// storyCommand is a line of a story.
var storyCommand = regexp.MustCompile(`^(start|deploy) (\w+) file (\d)(?: generation (\d+))?( idle)?$|^(\w+)(?: (\S+))?$`)

// do carries a line out. An error is part of the story: an operator may be refused.
func (s *story) do(line string) error {
	match := storyCommand.FindStringSubmatch(line)
	if match == nil {
		s.t.Fatalf("a line that no story has: %q", line)
	}
	if verb := match[1]; verb != "" {
		file, _ := strconv.Atoi(match[3])
		generation, _ := strconv.ParseInt(match[4], 10, 64)
		if n := s.node(match[2]); verb == "deploy" && n != nil {
			if err := s.end(n, false); err != nil {
				return err
			}
		}
		return s.start(match[2], file, generation, match[5] != "")
	}

	verb, argument := match[6], match[7]
	if n := s.node(argument); n != nil {
		return s.doWith(n, verb)
	}
	switch verb {
	case "store":
		return s.doStore(argument)
	case "who":
		s.leads = true
		return nil
	case "wait":
		d, err := time.ParseDuration(argument)
		if err != nil {
			s.t.Fatal(err)
		}
		return s.wait(d)
	}
	return s.order(verb, argument)
}

// doWith does something with a process that runs.
func (s *story) doWith(n *storyNode, verb string) error {
	switch verb {
	case "stop", "kill":
		return s.end(n, verb == "kill")
	case "serve":
		n.idle = false
		s.serve(n)
	case "cut", "heal":
		s.mu.Lock()
		n.link.cut = verb == "cut"
		s.mu.Unlock()
	case "press", "release":
		n.EnforceAuthoritative(verb == "press")
	default:
		s.t.Fatalf("nothing to do with a process: %q", verb)
	}
	return nil
}

func (s *story) doStore(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch what {
	case "away", "back":
		s.away = what == "away"
	case "saves":
		s.saved, _ = s.primary.States(context.Background(), []string{storyPolicy})
	case "empties", "returns":
		s.primary = stages.NewMemoryStore()
		if what == "returns" {
			return s.primary.Put(context.Background(), storyPolicy, s.saved[0], stages.Condition{})
		}
	default:
		s.t.Fatalf("no store does so: %q", what)
	}
	return nil
}

// order gives an order, as the command line does.
func (s *story) order(verb, argument string) error {
	ctx, o := context.Background(), stages.Order{Actor: "operator", Reason: "an order"}
	link := &storyLink{story: s}
	var err error
	switch verb {
	case "canary":
		percent, _ := strconv.ParseFloat(argument, 64)
		_, err = stages.Advance(ctx, link, storyPolicy, stages.Step{Stage: stages.Canary, Percent: percent}, o)
	case "promote":
		_, err = stages.Advance(ctx, link, storyPolicy, stages.Step{Stage: stages.Promoted}, o)
	case "complete":
		_, err = stages.Complete(ctx, link, storyPolicy, o)
	case "rollback":
		_, err = stages.Rollback(ctx, link, storyPolicy, o)
	case "pause":
		_, err = stages.Pause(ctx, link, storyPolicy, o)
	case "resume":
		_, err = stages.Resume(ctx, link, storyPolicy, o)
	case "adopt":
		file, _ := strconv.Atoi(argument)
		_, err = stages.Adopt(ctx, link, storyPolicy, storyFile(file, 0).Policies[0].Fingerprint(), o)
	default:
		s.t.Fatalf("no such order: %q", verb)
	}
	return err
}

// tell writes what has happened since the last time, and how things are.
func (s *story) tell(out *strings.Builder) {
	synctest.Wait()
	s.mu.Lock()
	primary, events, away := s.primary, s.events, s.away
	s.events = nil
	s.mu.Unlock()
	for _, e := range events {
		fmt.Fprintln(out, e)
	}

	states, _ := primary.States(context.Background(), []string{storyPolicy})
	fleet, _ := primary.Fleet(context.Background())
	if away {
		fmt.Fprintln(out, "the store is away")
	} else {
		fmt.Fprintf(out, "stored: %s\n", describeState(states[0]))
	}
	if s.leads {
		fmt.Fprintf(out, "%s leads\n", cmp.Or(fleet.Leader, "nobody"))
	}
	s.leads = false
	for _, n := range s.nodes {
		fmt.Fprintf(out, "%s, file %d", n.name, n.file)
		if n.generation > 0 {
			fmt.Fprintf(out, ", generation %d", n.generation)
		}
		fmt.Fprintf(out, ": %s\n", n.enforces())
	}
}

// enforces says which side a process enforces.
func (n *storyNode) enforces() string {
	if n.engine.Overruled.Load() {
		return "authoritative, by its red button"
	}
	p := n.engine.Plan.Load().Policies[0]
	share := 0
	for hash := range uint64(100) {
		if p.Enforced(evidence.Position{Hash: hash * 100}) == algorithms.Candidate {
			share++
		}
	}
	switch share {
	case 0:
		return algorithms.Authoritative.String()
	case 100:
		return algorithms.Candidate.String()
	}
	return fmt.Sprintf("candidate for %d %%", share)
}

// tellStory reads a story, and returns it with what really came of each part.
func tellStory(t *testing.T, text, dir string) string {
	s := &story{t: t, dir: dir, primary: stages.NewMemoryStore(), ledger: evidence.NewMemoryLedger()}
	var out strings.Builder
	replace := fileNames()
	told := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			told = false
			fmt.Fprintln(&out, line)
		case told: // what was written there before
		case line == "----":
			told = true
			var b strings.Builder
			s.tell(&b)
			fmt.Fprintln(&out, "----")
			_, _ = replace.WriteString(&out, b.String())
		default:
			fmt.Fprintln(&out, line)
			if err := s.do(line); err != nil {
				s.say(fmt.Sprintf("refused: %s: %s", line, err))
			}
		}
	}
	for len(s.nodes) > 0 {
		_ = s.end(s.nodes[0], true)
	}
	return out.String()
}

// Each story is told without this code: what happens to a fleet, and what comes of it.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { got = tellStory(t, string(text), dir) })
			switch {
			case got == string(text):
			case *update:
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s goes on in another way; if that is right: go test ./shadow -run TestStories -update\n%s", file, firstDifference(text, []byte(got)))
			}
		})
	}
}

// firstDifference shows the lines at which two texts part.
func firstDifference(want, got []byte) string {
	a, b := bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))
	for i := range b {
		if i >= len(a) || !bytes.Equal(a[i], b[i]) {
			return fmt.Sprintf("line %d\n--- want\n%s\n--- got\n%s", i+1, bytes.Join(a[min(i, len(a)):min(i+6, len(a))], []byte("\n")),
				bytes.Join(b[i:min(i+6, len(b))], []byte("\n")))
		}
	}
	return "the end is missing"
}
