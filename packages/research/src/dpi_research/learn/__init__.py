"""An estimator learned from simulated populations: worlds, prices, a recurrent filter, its training and its scores.

The simulator and the filter need numpy alone, training needs JAX (extra `learn`). Accounts and noise are floating-point
numbers here: nothing of this may ever touch a real user.
"""
