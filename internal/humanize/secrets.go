package humanize

import "regexp"

// Where a text may hold a password, to the end of the line or to the last @ of it: a password
// may contain any character.
var (
	// Redis quotes the arguments of a command that it does not know. Those of AUTH and HELLO
	// are a password.
	quotedArguments = regexp.MustCompile(`,? with args beginning with:.*`)
	userOfURL       = regexp.MustCompile(`://.*@`)
)

// WithoutSecrets leaves out of an error's text what may be a password: the arguments that Redis
// quotes, and the user and password of a URL.
func WithoutSecrets(text string) string {
	text = quotedArguments.ReplaceAllString(text, "")
	return userOfURL.ReplaceAllStringFunc(text, func(found string) string {
		if found == "://USER:PASSWORD@" { // of a message that says how to write it
			return found
		}
		return "://...@"
	})
}

// Discreet returns an error of a client of Redis as it may be logged and shown. A server that
// knows neither HELLO nor AUTH, as behind some proxies, answers with the password. Nearly all
// errors hold none, and are returned as they are.
func Discreet(err error) error {
	if err == nil || WithoutSecrets(err.Error()) == err.Error() {
		return err
	}
	return discreetError{err}
}

// discreetError is an error without the secrets of its text.
type discreetError struct{ error }

func (e discreetError) Error() string { return WithoutSecrets(e.error.Error()) }

func (e discreetError) Unwrap() error { return e.error }
