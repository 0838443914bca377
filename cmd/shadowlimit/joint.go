package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// joint is what a policy needs beside its own conditions when several are promoted together.
type joint struct {
	Rate     float64 `json:"rate"`     // the expected share of wrong ones among those that are moved
	Policies int     `json:"policies"` // that were named
	Score    float64 `json:"score"`    // the least of its ratios; 0 if its own conditions were not met
	Need     float64 `json:"need"`
}

// jointRate reads --joint, 0 without it.
func jointRate(c *cli.Context) (float64, error) {
	text := c.String("joint")
	if !c.IsSet("joint") {
		return 0, nil
	}
	percent, err := parsePercent(text)
	switch {
	case err != nil || percent == 100:
		return 0, usagef("such as 5%", "--joint %s: want a percentage above 0%% and below 100%%", text)
	case c.Bool("force"):
		return 0, usagef("give one of them", "--joint and --force: a forced step rests on no evidence")
	case !several(c):
		return 0, usagef("name several policies, or leave it out", "--joint with one policy, whose own conditions bound its error")
	}
	return percent / 100, nil
}

// text is "joint 5 % of 100 policies, score 2,300, needs 2,000".
func (j *joint) text() string {
	return fmt.Sprintf("joint %s of %d policies, score %s, needs %s",
		humanize.Percent(j.Rate), j.Policies, gate.ScoreText(j.Score), gate.ScoreText(j.Need))
}

func (j *joint) condition() gate.Condition {
	c := gate.Condition{
		Name: "joint evidence", Met: j.Score >= j.Need, Have: gate.ScoreText(j.Score), Need: gate.ScoreText(j.Need),
	}
	if !c.Met { // to name fewer policies now would be to choose by the scores, which voids the promise
		c.Reason = fmt.Sprintf("the least score of its ratios is %s, and --joint %s of %d policies needs %s: wait",
			c.Have, humanize.Percent(j.Rate), j.Policies, c.Need)
	}
	return c
}
