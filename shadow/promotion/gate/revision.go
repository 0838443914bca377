package gate

// Revision numbers the rules of this package. Raise it with each change after which the same
// evidence may have another verdict or alarm: during a deployment one revision judges, the one that
// most instances have.
const Revision = 5
