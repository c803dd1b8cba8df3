"""Optimizers: what their state holds, odd options, and what they refuse."""

CASES = r"""
p = T.nn.Parameter(T.ones(2)); o = T.optim.Adam([p]); p.sum().backward(); o.step(); r = o.state[p]["step"], sorted(o.state[p])
p = T.nn.Parameter(T.ones(2)); o = T.optim.AdamW([p]); p.sum().backward(); o.step(); s = o.state[p]["step"]; o.step(); r = s
p = T.nn.Parameter(T.ones(2)); o = T.optim.Adam([p]); p.sum().backward(); o.step(); o.state[p]["step"].fill_(7); o.step(); r = o.state[p]["step"]
p = T.nn.Parameter(T.ones(2)); o = T.optim.Adam([p]); p.sum().backward(); o.step(); o.state[p]["step"] = T.tensor(5.); o.step(); r = o.state[p]["step"], p
p = T.nn.Parameter(T.ones(2)); o = T.optim.Adam([p]); p.sum().backward(); o.step(); r = [(k, T.is_tensor(v)) for k, v in o.state[p].items()], len(o.state[p].values()), o.state[p].get("nothing")
p = T.nn.Parameter(T.ones(2)); o = T.optim.Adagrad([p]); r = o.state[p]["step"], sorted(o.state[p])
p = T.nn.Parameter(T.ones(2)); o = T.optim.RMSprop([p], centered=True, momentum=.9); p.sum().backward(); o.step(); r = o.state[p]["step"], sorted(o.state[p])
p = T.nn.Parameter(T.ones(2)); o = T.optim.Adadelta([p]); p.sum().backward(); o.step(); r = o.state[p]["step"], sorted(o.state[p])
p = T.nn.Parameter(T.ones(2)); o = T.optim.Adamax([p]); p.sum().backward(); o.step(); r = o.state[p]["step"], sorted(o.state[p])
p = T.nn.Parameter(T.ones(2)); o = T.optim.NAdam([p]); p.sum().backward(); o.step(); o.step(); r = o.state[p]["step"], o.state[p]["mu_product"]
p = T.nn.Parameter(T.ones(2)); o = T.optim.RAdam([p]); p.sum().backward(); o.step(); r = o.state[p]["step"], sorted(o.state[p])
p = T.nn.Parameter(T.ones(2)); o = T.optim.Rprop([p]); p.sum().backward(); o.step(); r = o.state[p]["step"], sorted(o.state[p])
p = T.nn.Parameter(T.ones(2)); o = T.optim.ASGD([p]); p.sum().backward(); o.step(); r = o.state[p]["step"], o.state[p]["eta"], o.state[p]["mu"]
p = T.nn.Parameter(T.ones(1)); o = T.optim.Adam([p]); p.sum().backward(); o.step(); q = T.nn.Parameter(T.ones(1)); o2 = T.optim.Adam([q]); o2.load_state_dict(o.state_dict()); r = o2.state[q]["step"], o2.state[q]["exp_avg"]
import copy, pickle; p = T.nn.Parameter(T.ones(1)); o = T.optim.Adam([p]); p.sum().backward(); o.step(); c = copy.deepcopy(o); q = c.param_groups[0]["params"][0]; r = c.state[q]["step"], len(pickle.loads(pickle.dumps(o.state_dict()))["state"])
p = T.nn.Parameter(T.ones(2)); o = T.optim.SGD([p], lr=.1); p.sum().backward(); o.step(); r = len(o.state)
p = T.nn.Parameter(T.ones(2)); o = T.optim.SGD([p], lr=.1, nesterov=True)
p = T.nn.Parameter(T.ones(2)); o = T.optim.Adam([p], foreach=True, fused=True)
p = T.nn.Parameter(T.ones(2)); o = T.optim.Adam([p], betas=(1.0, .9))
o = T.optim.SGD([])
o = T.optim.SGD(T.ones(2))
r = T.cat([])
r = T.cat(())
r = T.stack([])
r = T.softmax(T.tensor([1, 2]), 5)
r = T.log_softmax(T.tensor([1, 2]), 5)
r = T.softmax(T.tensor([1, 2]), 0)
"""
