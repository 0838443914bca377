// Package doctor checks the Redis that a service uses: its servers, the rights of its user,
// and the options of the instances' clients. Every finding that is not fine says what to change.
//
// The only writes are to scratch keys of a policy that cannot exist. They are removed, and
// expire if the program is killed before that: within seconds, and the note of an exchange in a week.
package doctor
