package shadow

// Grow makes the process as old as the windows of all policies, so that sides in it are compared.
func (i *instance) Grow() {
	for _, p := range i.engine.Plan.Load().Policies {
		p.Grow()
	}
}
