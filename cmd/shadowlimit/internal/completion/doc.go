// Package completion writes the scripts that complete commands in bash, zsh and fish. They are
// made from the tables of the commands themselves, so a new command or flag is in every script.
package completion
