package gate

// ObstacleKind is the subject of an obstacle. Its zero value is NothingCompared.
type ObstacleKind int

// The kinds of obstacles, in the order in which a verdict names them: those without which
// nothing can be concluded come first. Leaders publish the numbers, so they do not change: a kind
// of another package goes to the end.
const (
	NothingCompared   ObstacleKind = iota // no request has been counted at all
	FewDenials                            // the authoritative has denied too few requests
	FewDeniedKeys                         // the authoritative has denied too few keys
	DeniesNothing                         // the candidate agreed in no denial
	AllowsNothing                         // the candidate agreed in nothing allowed
	LowCoverage                           // too little of the last day was compared
	DisturbedTime                         // time is disturbed, and disturbed time is no evidence
	HoursUnseen                           // not every hour of the day was seen
	WeekdaysUnseen                        // not every weekday was seen, before a step to most keys
	NoInstance                            // no instance is live
	NotWriting                            // live instances have not written what they saw
	OtherFingerprints                     // live instances compare another fingerprint
	ProtectedLost                         // a protected key lost too much
	AboveThreshold                        // a raw ratio is at or above its threshold
	AboveLately                           // a raw ratio of the last day is
	Suspect                               // a mirror suspects that a ratio is above its threshold
	LowScore                              // a score does not suffice
	CleanTime                             // the clean time does not suffice
	Unreadable                            // the evidence cannot be read; only by package promotion
	RedButton                             // the red button of a live instance is pressed; only by package promotion
	Thresholds                            // no instance has announced the thresholds; only by package promotion
	NotJudged                             // no instance has judged the current comparison yet; only by package shadow
	ObstacleKinds     = iota              // how many kinds there are
)

// subject is all that is to say about a kind of obstacle.
type subject struct {
	name    string // in JSON
	verdict string // of a candidate whose first obstacle is of this kind
	// unforeseeable says why waiting does not end it, so that there is no forecast; "" if it ends by time and traffic as they were.
	unforeseeable string
}

// subjects are those of all kinds.
var subjects = [ObstacleKinds]subject{
	NothingCompared:   {"nothing_compared", Insufficient, "nothing has been compared yet"},
	FewDenials:        {"few_denials", Insufficient, ""},
	FewDeniedKeys:     {"few_denied_keys", Insufficient, ""},
	DeniesNothing:     {"denies_nothing", Insufficient, "the candidate denies nothing that the authoritative denies"},
	AllowsNothing:     {"allows_nothing", Insufficient, "no request is allowed by both sides"},
	LowCoverage:       {"low_coverage", Insufficient, "too few of the last day's requests were compared"},
	DisturbedTime:     {"disturbed", Insufficient, "disturbed time is no evidence, and when that ends is not known"},
	HoursUnseen:       {"hours_unseen", Insufficient, ""},
	WeekdaysUnseen:    {"weekdays_unseen", Insufficient, ""},
	NoInstance:        {"no_instance", Insufficient, "no instance is live"},
	NotWriting:        {"silent_instances", Insufficient, "an instance has written no evidence for a minute"},
	OtherFingerprints: {"other_fingerprints", Insufficient, "an instance compares another fingerprint"},
	ProtectedLost:     {"protected_lost", Wait, "waiting alone does not keep a protected key from losing requests again"},
	AboveThreshold:    {"above_threshold", Wait, "waiting alone does not lower a ratio that is at or above its threshold"},
	AboveLately:       {"above_lately", Wait, "the last day was at or above a threshold"},
	Suspect:           {"suspect", Wait, "a ratio may be above its threshold"},
	LowScore:          {"low_score", Wait, ""},
	CleanTime:         {"clean_time", Wait, ""},
	Unreadable:        {"unreadable", Insufficient, "the evidence cannot be read"},
	RedButton:         {"red_button", Insufficient, "the red button is pressed"},
	Thresholds:        {"thresholds_unknown", Insufficient, "no instance has announced the thresholds"},
	NotJudged:         {"not_judged", Insufficient, ""},
}

// subject returns the row of a kind. A kind that is none, as other programs may write, ends by time and
// traffic.
func (k ObstacleKind) subject() subject {
	if k < 0 || k >= ObstacleKinds {
		return subject{name: "unknown", verdict: Insufficient}
	}
	return subjects[k]
}

// String returns the name of the kind, "unknown" for any other number.
func (k ObstacleKind) String() string { return k.subject().name }

// Waits reports whether obstacles of the kind end by themselves if time and traffic go on as they were.
func (k ObstacleKind) Waits() bool { return k.subject().unforeseeable == "" }
