package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// haste is how many times faster the night's alerts are: each "for", range and offset of the rules is divided by it. Times of
// the fleet, such as when an instance is silent, are real. So an alert has less patience in the test than it has in service.
const haste = 10

// nightPolicies are promoted before the night: healthy candidates, in both modes, beside a limiter of the service's own, which
// needs no Redis, and beside one that an outage takes away as well.
var nightPolicies = []string{"own-automatic", "own-manual", "redis-automatic", "redis-manual"}

// nightFile is a policy file of the night. No user comes near 60 a second; each has 4.
func nightFile(name string, limit int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nname: %s\npolicies:\n", name)
	for _, policy := range nightPolicies {
		side, mode, _ := strings.Cut(policy, "-")
		authoritative := map[string]string{
			"own": "{ limiter: " + ownLimiter + " }", "redis": "{ algorithm: fixed_window, limit: 60, window: 1s }",
		}
		fmt.Fprintf(&b, `
  - name: %s
    key: request.user
    authoritative: %s
    candidate: { algorithm: token_bucket, limit: %d, window: 1s, burst: %d }
    promotion: { mode: %s }
`, policy, authoritative[side], limit, limit, mode)
	}
	return b.String()
}

// night is two processes on a Redis of their own under traffic, and a Prometheus that evaluates the rules.
type night struct {
	name, redis, data, url string
	stop                   func() // kills Redis
	begun                  time.Time
	dirs                   [2]string
	fleet                  [2]atomic.Pointer[service] // nil while it is dead
	store                  *stages.RedisStore
	pages                  []page // those that are true
	denied                 atomic.Int64
}

// page is a time in which an alert may page.
type page struct {
	alert    string
	from, to time.Time
}

// TestNight repeats the outages and deployments of a night on call. No candidate that is healthy is rolled back, no client of one is
// denied, nobody is paged for nothing, and what has to be told is told.
func TestNight(t *testing.T) {
	if os.Getenv(longVariable) == "" || testing.Short() {
		t.Skip("takes ten minutes: run make long")
	}
	n := newNight(t)
	defer n.tell(t)
	good, old := nightFile(n.name, 60), nightFile(n.name, 1)
	n.promote(t, stages.Step{Stage: stages.Promoted})
	n.pass(30 * time.Second)

	for _, empty := range []bool{false, true} {
		t.Logf("%s: Redis is killed", n.clock())
		n.stop()
		begun := time.Now()
		n.fires(t, "ShadowlimitFallbackDecisions", "critical")
		if empty {
			n.data = t.TempDir()
		} else {
			n.pass(160 * time.Second) // a candidate that fails alone for three minutes is rolled back
		}
		n.startRedis(t)
		t.Logf("%s: Redis is back, empty: %t", n.clock(), empty)
		n.all(t, "promoted", time.Minute)
		n.pass(40 * time.Second) // in which two evaluations see what was written of the outage
		n.rests(t, "ShadowlimitFallbackDecisions")
		n.pages = append(n.pages, page{"ShadowlimitFallbackDecisions", begun, time.Now()})
		n.all(t, "promoted", time.Second)
	}

	t.Logf("%s: an instance is killed", n.clock())
	dead := n.fleet[1].Swap(nil)
	_ = dead.cmd.Process.Kill()
	_ = dead.cmd.Wait()
	n.fires(t, "ShadowlimitNotJudged", "warning")
	n.start(t, 1)
	n.all(t, "promoted", time.Minute)

	t.Logf("%s: a file that cannot be used, on one instance", n.clock())
	n.deploy(t, "version: 1\nnonsense: [", 0)
	n.fires(t, "ShadowlimitPolicyErrors", "warning")
	n.deploy(t, good, 0)
	n.rests(t, "ShadowlimitPolicyErrors")

	t.Logf("%s: an old file on one instance", n.clock())
	n.deploy(t, old, 0)
	begun := time.Now()
	n.fires(t, "ShadowlimitOtherFingerprint", "critical")
	t.Logf("%s: the old file on both", n.clock())
	n.deploy(t, old, 1)
	n.fires(t, "ShadowlimitStageUndone", "warning")
	n.pages = append(n.pages, page{"ShadowlimitOtherFingerprint", begun, time.Now()})
	n.pass(20 * time.Second)
	t.Logf("%s: the deployment is undone", n.clock())
	n.deploy(t, good, 0, 1)
	n.all(t, "promoted", 90*time.Second)
	n.pass(40 * time.Second)

	if denied := n.denied.Load(); denied > 0 {
		t.Errorf("%d requests were denied, and every candidate that was enforced allows them", denied)
	}
	if found := n.query(t, `max_over_time(shadowlimit_stage{stage="rolled_back"}[1h]) == 1`); len(found) > 0 {
		t.Errorf("healthy candidates were rolled back: %v", found)
	}

	t.Logf("%s: the harmful candidate in a canary", n.clock())
	begun = time.Now() // the old file takes over after 30 s, which is as long as the hurried alert waits
	n.deploy(t, old, 0, 1)
	n.all(t, "shadow", 2*time.Minute)
	n.pages = append(n.pages, page{"ShadowlimitOtherFingerprint", begun, time.Now()})
	begun = time.Now()
	n.promote(t, stages.Step{Stage: stages.Canary, Percent: 50})
	n.fires(t, "ShadowlimitAlarm", "critical")
	n.fires(t, "ShadowlimitRolledBack", "critical") // of the automatic ones
	n.pages = append(n.pages, page{"ShadowlimitAlarm", begun, time.Now()}, page{"ShadowlimitNewlyDenied", begun, time.Now()},
		page{"ShadowlimitRolledBack", begun, time.Now()})
	n.checkPages(t)
	t.Logf("%s: the end", n.clock())
}

func newNight(t *testing.T) *night {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal(err)
	case err != nil:
		t.Skip("prometheus is not on PATH; install Debian's package prometheus")
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	n := &night{name: namespace(), redis: "127.0.0.1:" + port, data: t.TempDir(), begun: time.Now()}
	n.startRedis(t)
	client := redis.NewClient(&redis.Options{Addr: n.redis})
	t.Cleanup(func() { client.Close() })
	n.store = stages.NewRedisStore(client, n.name)

	for i := range n.dirs {
		n.dirs[i] = t.TempDir()
	}
	n.startPrometheus(t, program)
	for i := range n.fleet {
		n.deploy(t, nightFile(n.name, 60), i)
		n.start(t, i)
	}
	n.drive(t)
	return n
}

func (n *night) clock() string { return time.Since(n.begun).Round(time.Second).String() }

func (n *night) startRedis(t *testing.T) {
	t.Helper()
	_, port, _ := strings.Cut(n.redis, ":")
	_, stop, err := startRedis("--port", port, "--dir", n.data, "--appendonly", "yes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	n.stop = stop
}

// start starts an instance, which Prometheus then finds in a file.
func (n *night) start(t *testing.T, i int) {
	t.Helper()
	one := startServiceIn(t, n.dirs[i], n.redis, n.name, pathVariable+"="+filepath.Join(n.dirs[i], "policies.yaml"))
	targets := fmt.Sprintf(`[{"targets": [%q]}]`, strings.TrimPrefix(one.url, "http://"))
	replaceFile(t, filepath.Join(n.dirs[i], "targets.json"), targets)
	n.fleet[i].Store(one)
}

// deploy gives instances a policy file.
func (n *night) deploy(t *testing.T, text string, instances ...int) {
	t.Helper()
	for _, i := range instances {
		replaceFile(t, filepath.Join(n.dirs[i], "policies.yaml"), text)
	}
}

// replaceFile writes a file at once, so that nobody reads half of it.
func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// drive sends 40 requests a second of 10 users to the instances in turn, until the test ends.
func (n *night) drive(t *testing.T) {
	stop := make(chan struct{})
	var traffic sync.WaitGroup
	t.Cleanup(func() { close(stop); traffic.Wait() })
	traffic.Go(func() {
		for i, tick := 0, time.Tick(25*time.Millisecond); ; i++ {
			select {
			case <-stop:
				return
			case <-tick:
			}
			one := n.fleet[i%2].Load()
			if one == nil {
				continue
			}
			r, err := http.NewRequest("GET", one.url+"/", nil)
			if err != nil {
				panic(err) // the URL is constant
			}
			r.Header.Set("X-User", fmt.Sprint("user-", i/2%10))
			response, err := httpClient.Do(r)
			if err != nil {
				continue // the instance has just been killed
			}
			response.Body.Close()
			if response.StatusCode != 200 {
				n.denied.Add(1)
			}
		}
	})
}

var rangeOrOffset = regexp.MustCompile(`(\[|offset )(\d+)([mhdw])`)

// hurried is a duration of the rules, divided by haste.
func hurried(number, unit string) string {
	var count int
	_, _ = fmt.Sscan(number, &count) // the expression lets digits through alone
	seconds := map[string]int{"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}[unit]
	return fmt.Sprint(count*seconds/haste, "s")
}

// startPrometheus starts it with the rules, each time divided by haste.
func (n *night) startPrometheus(t *testing.T, program string) {
	t.Helper()
	dir := t.TempDir()
	rules := readYAML(t, "../alerts/shadowlimit.rules.yaml")
	suite := &ruleSuite{groups: rules["groups"].([]any)}
	for _, rule := range suite.rules() {
		rule["expr"] = rangeOrOffset.ReplaceAllStringFunc(rule["expr"].(string), func(text string) string {
			part := rangeOrOffset.FindStringSubmatch(text)
			return part[1] + hurried(part[2], part[3])
		})
		for _, field := range []string{"for", "keep_firing_for"} {
			if text, ok := rule[field].(string); ok {
				rule[field] = hurried(text[:len(text)-1], text[len(text)-1:])
			}
		}
	}
	writeYAML(t, filepath.Join(dir, "rules.yaml"), rules)
	writeYAML(t, filepath.Join(dir, "prometheus.yaml"), fields{
		"global":     fields{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{"rules.yaml"},
		"scrape_configs": []fields{{"job_name": "night", "file_sd_configs": []fields{{
			"files": []string{filepath.Join(n.dirs[0], "targets.json"), filepath.Join(n.dirs[1], "targets.json")}, "refresh_interval": "1s",
		}}}},
	})

	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	n.url = "http://127.0.0.1:" + port
	cmd := exec.Command(program, "--config.file", filepath.Join(dir, "prometheus.yaml"), "--log.level", "error",
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:"+port)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	n.until(t, "Prometheus is ready", time.Minute, func() bool {
		response, err := httpClient.Get(n.url + "/-/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == 200
	})
}

// series is a series of an answer of Prometheus.
type series struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
}

func (n *night) query(t *testing.T, expr string) []series {
	t.Helper()
	return n.ask(t, "/api/v1/query", url.Values{"query": {expr}})
}

func (n *night) ask(t *testing.T, path string, values url.Values) []series {
	t.Helper()
	response, err := httpClient.Get(n.url + path + "?" + values.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			Result []series `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Status != "success" {
		t.Fatalf("%v: %s", values, response.Status)
	}
	return answer.Data.Result
}

// until waits for a condition; the night goes on at its own pace.
func (n *night) until(t *testing.T, what string, limit time.Duration, met func() bool) {
	t.Helper()
	late := time.After(limit)
	for tick := time.Tick(200 * time.Millisecond); !met(); {
		select {
		case <-tick:
		case <-late:
			for i := range n.fleet {
				if one := n.fleet[i].Load(); one != nil {
					_, text := one.get(t, "/status?format=text", "")
					t.Log(one.url, text)
				}
			}
			t.Fatalf("%s: waited %s in vain until %s", n.clock(), limit, what)
		}
	}
}

// tell says, of a night that went wrong, what has moved the policies.
func (n *night) tell(t *testing.T) {
	if !t.Failed() {
		return
	}
	for _, policy := range nightPolicies {
		history, err := n.store.History(t.Context(), policy)
		for _, s := range history {
			t.Logf("%s: %s: %s by %s: %s", s.At.Sub(n.begun).Round(time.Second), policy, s.Describe(), s.Actor, s.Reason)
		}
		if err != nil {
			t.Logf("%s: %s", policy, err)
		}
	}
}

// pass lets time go by, in which nothing should happen.
func (n *night) pass(d time.Duration) { <-time.After(d) }

func (n *night) fires(t *testing.T, alert, severity string) {
	t.Helper()
	expr := fmt.Sprintf(`ALERTS{alertstate="firing", alertname=%q, severity=%q}`, alert, severity)
	n.until(t, alert+" fires", 90*time.Second, func() bool { return len(n.query(t, expr)) > 0 })
	t.Logf("%s: %s fires, %s", n.clock(), alert, severity)
}

func (n *night) rests(t *testing.T, alert string) {
	t.Helper()
	expr := fmt.Sprintf(`ALERTS{alertstate="firing", alertname=%q}`, alert)
	n.until(t, alert+" rests", 90*time.Second, func() bool { return len(n.query(t, expr)) == 0 })
}

// all waits until both instances have applied a stage of each policy.
func (n *night) all(t *testing.T, stage string, limit time.Duration) {
	t.Helper()
	want := len(n.fleet) * len(nightPolicies)
	expr := fmt.Sprintf(`shadowlimit_stage{stage=%q} == 1 unless ignoring (stage) shadowlimit_other_fingerprint == 1`, stage)
	n.until(t, "all are "+stage, limit, func() bool { return len(n.query(t, expr)) == want })
	t.Logf("%s: all are %s", n.clock(), stage)
}

func (n *night) promote(t *testing.T, step stages.Step) {
	t.Helper()
	for _, policy := range nightPolicies {
		must(t)(stages.Advance(t.Context(), n.store, policy, step, drillOrder))
	}
	if step.Stage == stages.Promoted {
		n.all(t, "promoted", time.Minute)
	}
}

// checkPages holds that no critical alert has fired but in the times in which it may.
func (n *night) checkPages(t *testing.T) {
	t.Helper()
	now := time.Now()
	list := n.ask(t, "/api/v1/query_range", url.Values{
		"query": {`ALERTS{alertstate="firing", severity="critical"}`}, "step": {"1"},
		"start": {fmt.Sprint(n.begun.Unix())}, "end": {fmt.Sprint(now.Unix())},
	})
	for _, s := range list {
		for _, v := range s.Values {
			at := time.Unix(int64(v[0].(float64)), 0)
			if !n.mayPage(s.Metric["alertname"], at) {
				t.Errorf("%s after the begin of the night: a false page: %v", at.Sub(n.begun).Round(time.Second), s.Metric)
				break
			}
		}
	}
}

func (n *night) mayPage(alert string, at time.Time) bool {
	const late = 2 * time.Second // an evaluation, and the fraction of a second that the samples lack
	for _, p := range n.pages {
		if p.alert == alert && !at.Before(p.from.Add(-late)) && !at.After(p.to.Add(late)) {
			return true
		}
	}
	return false
}
