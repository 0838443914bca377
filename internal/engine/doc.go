// Package engine is the way of a request: assign (which side is enforced, and what becomes of the other one), ask (the stores
// and the custom limiters), decide, record. It knows nothing of other instances but what a request needs, which package shadow
// sets: the view of it by [Engine.See], the stage of each policy in a [stages.Current], and whether the red button of the instance
// is pressed.
//
// Its only goroutines are those of the async queues, which ask sides after the answer, of the exchange of synchronized stores,
// and of calls of custom limiters. [Engine.Close] ends them.
package engine
