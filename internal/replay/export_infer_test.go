package replay

// InWholeSeconds returns the events by a clock of whole seconds.
func (e *Events) InWholeSeconds() *Events {
	for i := range e.list {
		e.list[i].at -= e.list[i].at % 1_000_000
	}
	return e
}
