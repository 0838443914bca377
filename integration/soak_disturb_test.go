package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// disturbance is something that happens to a fleet. It returns what it did, and how it ends;
// nil if it is over.
type disturbance struct {
	loses bool // some evidence: not in a gentle round
	do    func(*soak) (what string, end func())
}

// disturbances are drawn with the same chance each.
var disturbances = []disturbance{
	{true, (*soak).killOne},
	{true, (*soak).killOne},
	{false, (*soak).freezeOne},
	{false, (*soak).restartOne},
	{true, (*soak).reloadOne},
	{true, (*soak).deploy},
	{false, (*soak).press},
	{false, (*soak).orderAny},
	{false, (*soak).orderAny},
	{false, (*soak).orderAny},
	{false, (*soak).stallRedis},
	{false, (*soak).pauseRedis},
	{false, (*soak).restartRedis},
	{true, (*soak).loseRedis},
	{true, (*soak).flushAll},
	{true, (*soak).failOver},
	{false, (*soak).flushScripts},
}

// gentle reports whether this round has no disturbance that may lose evidence: then the ledger
// must have everything.
func (s *soak) gentle() bool { return s.rounds%3 == 1 }

// someSlot draws a slot that is not frozen, nil if there is none. The first one is kept for
// the whole soak: its memory says whether anything grows.
func (s *soak) someSlot(from int) *slot {
	one := s.fleet[from+s.random.IntN(len(s.fleet)-from)]
	if s.frozen[one] {
		return nil
	}
	return one
}

const notNow = "nothing: another disturbance is in the way"

func (s *soak) killOne() (string, func()) {
	one := s.someSlot(1)
	if one == nil {
		return notNow, nil
	}
	s.departed = true
	one.kill()
	return fmt.Sprint("kill -9 ", one.number), nil
}

func (s *soak) freezeOne() (string, func()) {
	one := s.someSlot(0)
	if one == nil {
		return notNow, nil
	}
	one.disturbed, s.frozen[one] = true, true
	one.signal(syscall.SIGSTOP)
	return fmt.Sprint("stop ", one.number), func() { one.signal(syscall.SIGCONT); delete(s.frozen, one) }
}

// restartOne replaces a process. Where Redis is away it could not write its last counts.
func (s *soak) restartOne() (string, func()) {
	one := s.someSlot(1)
	if one == nil || s.disturbsRedis {
		return notNow, nil
	}
	s.departed = true
	one.replace()
	return fmt.Sprint("restart ", one.number), nil
}

// reloadOne gives one process of this release the other policy file.
func (s *soak) reloadOne() (string, func()) {
	one := s.fleet[s.random.IntN(s.current)]
	if s.frozen[one] || s.disturbsRedis {
		return notNow, nil
	}
	s.departed, s.reloads = true, s.reloads+1
	one.put(1 - one.file)
	return fmt.Sprintf("reload %d to file %d", one.number, one.file), nil
}

// deploy rolls the other file out over the processes of this release, one after the other.
func (s *soak) deploy() (string, func()) {
	if s.disturbsRedis || len(s.frozen) > 0 {
		return notNow, nil
	}
	s.departed = true
	file := 1 - s.fleet[1].file
	for _, one := range s.fleet[1:s.current] {
		one.put(file)
		one.replace()
		s.rest(time.Second)
	}
	s.reloads++
	s.fleet[0].put(file)
	return fmt.Sprint("deploy file ", file), nil
}

// press presses the red button of one process of this release.
func (s *soak) press() (string, func()) {
	one := s.fleet[s.random.IntN(s.current)]
	if s.frozen[one] {
		return notNow, nil
	}
	said := s.button(one, http.MethodPost)
	return fmt.Sprintf("press the button of %d: %s", one.number, said), func() {
		if !s.frozen[one] {
			s.button(one, http.MethodDelete)
		}
	}
}

// button uses the handler of a red button, and returns what it says.
func (s *soak) button(one *slot, method string) string {
	one.asking.Lock() // its process stays
	defer one.asking.Unlock()
	r, err := http.NewRequest(method, one.now.url+"/red-button", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := httpClient.Do(r)
	if err != nil {
		s.t.Errorf("the red button of %d: %v", one.number, err)
		return ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return strings.TrimSpace(string(text))
}

// onRedis notes that Redis is disturbed until the returned end.
func (s *soak) onRedis(end func()) func() {
	s.disturbsRedis = true
	for _, one := range s.fleet {
		one.disturbed = true
	}
	return func() {
		if end != nil {
			end()
		}
		s.disturbsRedis = false
	}
}

func (s *soak) stallRedis() (string, func()) {
	if s.disturbsRedis {
		return notNow, nil
	}
	primary := s.redis.primary
	primary.signal(syscall.SIGSTOP)
	return "stop redis-server", s.onRedis(func() { primary.signal(syscall.SIGCONT) })
}

func (s *soak) pauseRedis() (string, func()) {
	if s.disturbsRedis {
		return notNow, nil
	}
	ms := 200 + s.random.IntN(5000)
	_ = s.redis.primary.do("CLIENT", "PAUSE", ms, "ALL")
	return fmt.Sprintf("pause Redis for %d ms", ms), s.onRedis(func() { s.rest(time.Duration(ms) * time.Millisecond) })
}

func (s *soak) restartRedis() (string, func()) {
	if s.disturbsRedis {
		return notNow, nil
	}
	end := s.onRedis(nil)
	s.redis.primary.restart(keepsData)
	s.redis.awaitReplica()
	end()
	return "restart Redis with its data", nil
}

// losing reports whether Redis may lose its data in this round. Where it does, less can be
// asked of the ledger and the trail, so most rounds have no such loss.
func (s *soak) losing() bool { return s.rounds%4 == 0 }

func (s *soak) loseRedis() (string, func()) {
	if s.disturbsRedis || !s.losing() {
		return notNow, nil
	}
	end := s.onRedis(nil)
	s.lost = true
	s.redis.primary.restart(losesData)
	s.redis.awaitReplica()
	end()
	return "restart Redis without data", nil
}

func (s *soak) flushAll() (string, func()) {
	if s.disturbsRedis || !s.losing() {
		return notNow, nil
	}
	s.lost = true
	ask(s.t, s.redis.primary.addr, "FLUSHALL")
	return "FLUSHALL", nil
}

func (s *soak) failOver() (string, func()) {
	if s.disturbsRedis {
		return notNow, nil
	}
	end := s.onRedis(nil)
	s.failedOver = true
	missed := time.Duration(s.random.IntN(3000)) * time.Millisecond
	s.redis.failOver(missed)
	end()
	return fmt.Sprintf("fail over to a replica that missed %s", missed), nil
}

func (s *soak) flushScripts() (string, func()) {
	if s.disturbsRedis {
		return notNow, nil
	}
	ask(s.t, s.redis.primary.addr, "SCRIPT", "FLUSH")
	return "SCRIPT FLUSH", nil
}

// order is one that was given by the command line.
type soakOrder struct {
	reason, text string
	status       int
	stored       bool // the command says that it is stored
}

// soakOrders begin with those that may lose evidence, because it begins again.
var soakOrders = [][]string{
	{"resume", "--force"},
	{"resume", "--force"},
	{"promote", "--to", "10%", "--force"},
	{"promote", "--full", "--force"},
	{"rollback"},
	{"rollback", "--wait"},
	{"pause"},
}

const losingOrders = 2

// orderAny gives an order, with a short patience.
func (s *soak) orderAny() (string, func()) {
	s.ordered++
	from := 0
	if s.gentle() {
		from = losingOrders
	}
	args := soakOrders[from+s.random.IntN(len(soakOrders)-from)]
	o := soakOrder{reason: fmt.Sprintf("order %d of the soak", s.ordered), text: strings.Join(args, " ")}
	all := append([]string{args[0], "per-user"}, args[1:]...)
	var out string
	o.status, out = shell(s.t, server{addr: s.redis.entrance}, s.name, append(all, "--reason", o.reason, "--timeout", "6s")...)

	// 5 is an order that is stored, and that not every instance has applied in time, or one that
	// waits to be stored. An order that was carried out by an earlier one leaves no trace.
	stored := o.status == 0 || o.status == 5 && strings.Contains(out, "stored, but after")
	o.stored = stored && !strings.Contains(out, "already, by")
	s.note(o)
	return fmt.Sprintf("%s: exit %d", o.text, o.status), nil
}

// note remembers an order. A rollback stands until an operator tries to resume: a resumption whose
// answer is lost may have been stored.
func (s *soak) note(o soakOrder) {
	if o.stored {
		s.orders = append(s.orders, o)
	}
	switch {
	case strings.HasPrefix(o.text, "rollback") && o.status == 0:
		s.stands = o.reason
	case strings.HasPrefix(o.text, "resume") && o.status != 3:
		s.stands = ""
	}
}
