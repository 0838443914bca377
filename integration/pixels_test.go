package integration

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// shoot takes a picture of the page, and leaves it in the folder for that if there is
// one.
func (b *browser) shoot(t *testing.T, name string) image.Image {
	t.Helper()
	text := b.screenshot(t)
	if dir := os.Getenv(pageShots); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	shot, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}

	return shot
}

// count returns how many pixels of an area have a colour, as CSS computes it: rgb(1, 2, 3).
func count(t *testing.T, shot image.Image, area image.Rectangle, css string) (n int) {
	t.Helper()

	var want color.RGBA
	if _, err := fmt.Sscanf(css, "rgb(%d, %d, %d)", &want.R, &want.G, &want.B); err != nil {
		t.Fatalf("colour %q: %v", css, err)
	}

	area = area.Intersect(shot.Bounds())
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			if near(shot.At(x, y), want) {
				n++
			}
		}
	}

	return n
}

// near allows for the smoothing of lines.
func near(c color.Color, want color.RGBA) bool {
	got := color.RGBAModel.Convert(c).(color.RGBA)
	const most = 24
	apart := func(a, b uint8) bool { return a > b && a-b > most || b > a && b-a > most }
	return !apart(got.R, want.R) && !apart(got.G, want.G) && !apart(got.B, want.B)
}

// luminance is how bright a colour is, from 0 to 1.
func luminance(c color.Color) float64 {
	return float64(color.GrayModel.Convert(c).(color.Gray).Y) / 255
}
