package gate

// kindNames are the kinds of obstacles in JSON.
var kindNames = [...]string{
	Sampled:         "sampled",
	NothingCompared: "nothing_compared",
	FewDenials:      "few_denials",
	FewDeniedKeys:   "few_denied_keys",
	DeniesNothing:   "denies_nothing",
	AllowsNothing:   "allows_nothing",
	LowCoverage:     "low_coverage",
	MostlyBlind:     "mostly_blind",
	NoiseFloor:      "noise_floor",
	HoursUnseen:     "hours_unseen",
	WeekdaysUnseen:  "weekdays_unseen",
	NoInstance:      "no_instance",
	NotWriting:      "silent_instances",
	OtherEpochs:     "other_epochs",
	NoDenominator:   "no_denominator",
	ProtectedLost:   "protected_lost",
	AboveThreshold:  "above_threshold",
	AboveLately:     "above_lately",
	ClientsHarmed:   "clients_harmed",
	Suspect:         "suspect",
	LowScore:        "low_score",
	CleanTime:       "clean_time",
	Unreadable:      "unreadable",
	AboveInSoak:     "above_in_soak",
}

// String returns the name of the kind. A judge of a later release may publish kinds that have no name here: they are "unknown".
func (k ObstacleKind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}
