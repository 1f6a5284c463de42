"""The learned refiner: state, actions, Q-network, training, and the planners that use it."""
