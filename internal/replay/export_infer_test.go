package replay

// InWholeSeconds returns the events by a clock of whole seconds.
func (e *Events) InWholeSeconds() *Events {
	for one := range e.list.all() {
		one.at -= one.at % 1_000_000
	}
	return e
}
