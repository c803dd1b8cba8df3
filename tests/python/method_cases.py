"""More one-line programs for the recording: every function with its gradient, indexing, in-place writes and wrong calls."""

# Each is read, and a weighted sum of it is differentiated, at a point where it is smooth.
DIFFERENTIABLE = """
x.exp()
x.log()
x.sqrt()
x.rsqrt()
x.sin()
x.cos()
x.tan()
x.tanh()
x.sigmoid()
x.relu()
x.abs()
x.square()
x**3
x**2.5
2**x
x**x
x.reciprocal()
x.erf()
x.expm1()
x.log1p()
x.log2()
x.atan()
x.asinh()
x.softmax(0)
x.log_softmax(1)
x.logsumexp(1)
x.norm()
x.norm(1)
x.norm(3,dim=0)
x.std()
x.var(1)
x.mean(0)
x.prod()
x.prod(1)
x.cumsum(0)
x.cumprod(1)
x.max()
x.max(1)[0]
x.min(0).values
x.amax(1)
x.sort(1)[0]
x.topk(2,1)[0]
x.T@x
x@x.T
x.flatten()
x.reshape(3,2)
x.permute(1,0)
x.expand(2,2,3)
x.repeat(2,1)
x.flip(0)
x.roll(1,1)
x.tril()
x.diagonal()
x[0]
x[:,1:]
x[x>1]
x[T.tensor([0,0])]
x.gather(1,T.tensor([[0,0],[1,2]]))
x.index_select(1,T.tensor([2,2]))
T.where(x>1,x,x*2)
x.masked_fill(x>1,0)
x.clamp(0.6,1.2)
T.maximum(x,x.flip(0))
T.cat([x,x*2])
T.stack([x,x])
x.unbind(1)[0]
x.split(1,1)[2]
x.scatter(1,T.tensor([[0],[1]]),x[:,:1]*3)
x.scatter_add(0,T.tensor([[0,0,1]]),x[:1])
x.index_add(0,T.tensor([0,0]),x)
T.einsum('ij,kj->ik',x,x)
T.addmm(x[:,:2],x,x.T)
x.lerp(x*2,0.3)
T.addcmul(x,x,x,value=2)
T.atan2(x,x+1)
x.fmod(0.4)
x.remainder(0.4)
x.floor()
x.sign()
x.round()
x.to(T.float64)
x.double().float()
x.clone()
x.contiguous()
x.squeeze()
x.unsqueeze(0)
x.movedim(0,1)
x.unfold(1,2,1)
x.trace()
x.logaddexp(x*2)
x.hypot(x)
x.median()
x.nansum()
x.diff()
x.cov()
x.logcumsumexp(0)
x.cummax(1)[0]
x.take(T.tensor([0,3]))
x.dist(x*2)
T.cdist(x,x+1)
x.kron(x)
x.index_fill(0,T.tensor([0]),3.)
x.xlogy(x)
x.sinc()
x.copysign(-x)
x.frac()
x.trunc()
x.nan_to_num()
x.rot90()
x.swapaxes(0,1)
x.t()
x.mT
""".strip().splitlines()

POINT = "x = T.tensor([[0.5, 1.25, 0.75], [1.5, 0.9, 2.0]], dtype=T.float64, requires_grad=True)"
BACKWARD = "(y * T.arange(1.0, 1.0 + y.numel(), dtype=y.dtype).reshape(y.shape)).sum().backward()"
GRADIENTS = [f"{POINT}; y = {function}; {BACKWARD}; r = y, x.grad" for function in DIFFERENTIABLE]

PLAIN = """
r = T.ones(2)*T.ones(2,dtype=T.float64)
r = T.ones(2,dtype=T.int32)+T.ones((),dtype=T.int64)
r = T.ones(2,dtype=T.int32)+T.ones((),dtype=T.float64)
r = T.ones((),dtype=T.int32)+T.ones((),dtype=T.float16)
r = T.ones(2,dtype=T.float16)+T.ones(2,dtype=T.bfloat16)
r = T.ones(2,dtype=T.bool)+1.5
r = T.ones(2,dtype=T.bool)*3
r = T.tensor([1,2,3])/2
r = T.tensor([7,-7])//2
r = T.tensor([7,-7])%3
r = T.tensor([7.5,-7.5])%3
r = T.tensor([7,-7])//T.tensor([2.0,2.0])
r = 7//T.tensor([2,3])
r = 2**T.tensor([1,2,3])
r = 2.0**T.tensor([1,2,3])
r = T.tensor([1,2,3])**-1
r = T.tensor([1.,2,3])**-1
r = T.tensor([2,3])**0.5
r = T.tensor([4.,9.])**T.tensor([1,2])
r = T.tensor([-8.])**(1/3)
x=T.ones(2,dtype=T.int64); x+=1.5; r=x
x=T.ones(2,dtype=T.int64); x/=2; r=x
x=T.ones(2); x+=T.ones(2,dtype=T.float64); r=x
x=T.ones(2,dtype=T.float16); x*=T.ones(2); r=x
x=T.ones(2); x+=T.ones(3,2); r=x
x=T.ones(2); x.add_(T.ones(2),alpha=2.5); r=x
x=T.ones(2,dtype=T.int64); x.add_(1,alpha=2.5); r=x
r = T.add(T.ones(2),T.ones(2),alpha=3)
r = T.ones(2).add(2,alpha=3)
r = T.ones(2,dtype=T.int64).add(2,alpha=0.5)
r = T.tensor([1,2]).sum(), T.tensor([1,2]).prod(), T.tensor([True,True]).sum()
r = T.tensor([1,2],dtype=T.int32).cumsum(0)
r = T.tensor([1,2],dtype=T.uint8).mean()
r = T.tensor([1,2],dtype=T.uint8).mean(dtype=T.float32)
r = T.tensor([[1,5],[7,2]]).amax((0,1)), T.tensor([[1,5],[7,2]]).aminmax()
r = T.tensor([3,1,3]).argmax(), T.tensor([1,1]).argmin()
r = T.tensor([[1.,2],[3,4]]).logsumexp(1), T.tensor([[1.,2],[3,4]]).logsumexp((0,1))
r = T.tensor([[1.,2],[3,4]]).softmax(-1), T.tensor([[1.,2],[3,4]]).log_softmax(0)
r = T.tensor([1,2,2,3]).unique(), T.unique(T.tensor([3,1,3]),return_inverse=True,return_counts=True)
r = T.unique_consecutive(T.tensor([1,1,2,2,1]))
r = T.tensor([3.,1,2]).sort(), T.tensor([3.,1,2]).sort(descending=True), T.tensor([3.,1,2]).argsort()
r = T.tensor([3.,float('nan'),2]).sort()
r = T.tensor([[3.,1,2],[9,8,7]]).topk(2), T.tensor([3.,1,2]).topk(2,largest=False)
r = T.tensor([3.,1,2]).median(), T.tensor([[3.,1,2,5]]).median(1)
r = T.tensor([1.,2,3,4]).quantile(0.3), T.tensor([1.,2,3,4]).quantile(T.tensor([0.1,0.5]))
r = T.tensor([1,1,2]).mode()
r = T.bincount(T.tensor([0,1,1,3])), T.bincount(T.tensor([0,1,1]),minlength=5), T.bincount(T.tensor([0,1]),weights=T.tensor([0.5,2.]))
r = T.histc(T.tensor([1.,2,1]),bins=4,min=0,max=3)
r = T.nonzero(T.tensor([[1,0],[0,2]])), T.tensor([[1,0],[0,2]]).nonzero(as_tuple=True), T.tensor(3).nonzero()
r = T.where(T.tensor([True,False]),1,2.5), T.where(T.tensor([True,False]),T.tensor([1,2]),0)
r = T.where(T.tensor([1,0]),1,2)
r = T.where(T.tensor([[1,0],[0,1]])>0)
r = T.tensor([1.,2]).masked_fill(T.tensor([True,False]),5)
r = T.tensor([1,2]).masked_fill(T.tensor([True,False]),5.5)
r = T.gather(T.tensor([[1,2],[3,4]]),1,T.tensor([[0,0],[1,0]]))
r = T.gather(T.tensor([[1,2],[3,4]]),1,T.tensor([0,1]))
r = T.gather(T.tensor([[1,2],[3,4]]),1,T.tensor([[0.5]]))
r = T.zeros(3,5).scatter(0,T.tensor([[0,1,2,0,0]]),T.ones(1,5))
r = T.zeros(3,5).scatter_(1,T.tensor([[0],[1],[2]]),2.5)
r = T.zeros(3).scatter_add(0,T.tensor([0,0,2]),T.ones(3))
r = T.zeros(3).scatter(0,T.tensor([0,1]),T.ones(1))
r = T.zeros(3,dtype=T.int64).scatter(0,T.tensor([0]),T.ones(1))
r = T.zeros(3).scatter_reduce(0,T.tensor([0,0,1]),T.tensor([1.,2,3]),reduce='sum')
r = T.ones(3).scatter_reduce(0,T.tensor([0,0,1]),T.tensor([1.,2,3]),reduce='amax')
r = T.ones(3).scatter_reduce(0,T.tensor([0,0,1]),T.tensor([4.,2,3]),reduce='mean',include_self=False)
r = T.zeros(3,2).index_add(0,T.tensor([0,0]),T.ones(2,2),alpha=2)
r = T.zeros(3,2).index_fill(0,T.tensor([0,2]),7)
r = T.zeros(3,2).index_copy(0,T.tensor([0,2]),T.ones(2,2))
r = T.take_along_dim(T.tensor([[3,1],[2,4]]),T.tensor([[0],[1]]),1)
r = T.matmul(T.ones(3),T.ones(3)), T.ones(2,3)@T.ones(3), T.ones(3)@T.ones(3,2), T.ones(2,1,3,4)@T.ones(5,4,2)
r = T.ones(2,3)@T.ones(2,3)
r = T.ones(2,3,dtype=T.int64)@T.ones(3,2,dtype=T.int64)
r = T.ones(2,3)@T.ones(3,2,dtype=T.float64)
r = T.tensor(2.)@T.ones(2)
r = T.addmm(T.ones(2),T.ones(2,3),T.ones(3,2),beta=2,alpha=0.5)
r = T.baddbmm(T.ones(2,2,2),T.ones(2,2,3),T.ones(2,3,2))
r = T.addmv(T.ones(2),T.ones(2,3),T.ones(3)), T.mv(T.ones(2,3),T.ones(3)), T.dot(T.ones(2),T.ones(2)), T.outer(T.ones(2),T.ones(3)), T.inner(T.ones(2,3),T.ones(4,3)), T.tensordot(T.ones(2,3),T.ones(3,4),1)
r = T.cat([T.ones(2),T.zeros(1)]), T.cat([T.ones(1,2),T.zeros(1,2)],dim=-1), T.cat([T.ones(1,dtype=T.int64),T.ones(1)])
r = T.cat([T.ones(2,2),T.ones(3,3)])
r = T.stack([T.ones(2),T.zeros(2)],1), T.hstack([T.ones(2),T.zeros(1)]), T.vstack([T.ones(2),T.zeros(2)]), T.dstack([T.ones(2),T.zeros(2)])
r = T.arange(5).split(2), T.arange(5).split([1,4]), T.arange(5).chunk(2), T.arange(5).tensor_split(3), T.arange(4).unbind()
r = T.arange(5).split([1,3])
r = T.arange(6).view(4,-1)
r = T.arange(6).view(-1,-1)
r = T.ones(2).unsqueeze(3)
r = T.ones(2,1).expand(-1,3), T.ones(2).expand(3,2), T.broadcast_to(T.ones(2),(3,2))
r = T.ones(2).expand(-1,2)
r = T.arange(2).repeat(2,2), T.arange(2).repeat_interleave(2), T.arange(2).repeat_interleave(T.tensor([1,3])), T.arange(2).tile((2,))
r = T.tril_indices(3,3), T.triu_indices(2,3,1)
r = T.clamp(T.tensor([1.,5,9]),2,6), T.tensor([1,5]).clamp(min=2), T.tensor([1,5]).clamp(max=2.5), T.tensor([1.,5]).clamp(T.tensor([2.,2]),T.tensor([3.,3]))
r = T.tensor([1.,float('inf'),float('nan')]).nan_to_num(), T.isnan(T.tensor([1.,float('nan')])), T.isfinite(T.tensor([1.,float('inf')])), T.isinf(T.tensor([1,2]))
r = T.lerp(T.zeros(2),T.ones(2),0.3), T.addcmul(T.zeros(2),T.ones(2),T.ones(2),value=3), T.addcdiv(T.zeros(2),T.ones(2),T.tensor([2.,4]))
r = T.allclose(T.ones(2),T.ones(2,dtype=T.float64))
r = T.meshgrid(T.arange(2),T.arange(3),indexing='ij'), T.cartesian_prod(T.tensor([1,2]),T.tensor([3,4])), T.combinations(T.tensor([1,2,3]))
r = T.cumsum(T.ones(2,3),1), T.cumprod(T.arange(1.,4),0), T.cummax(T.tensor([1,3,2]),0), T.cummin(T.tensor([3,1,2]),0), T.logcumsumexp(T.tensor([1.,2]),0), T.diff(T.tensor([1,3,6]))
r = T.searchsorted(T.tensor([1.,2,3]),T.tensor([2.5])), T.bucketize(T.tensor([1.5]),T.tensor([1.,2]))
r = T.floor(T.tensor([1.5,-1.5])), T.ceil(T.tensor([1.2])), T.round(T.tensor([0.5,1.5,2.5])), T.trunc(T.tensor([-1.5])), T.frac(T.tensor([1.25])), T.round(T.tensor([1.255]),decimals=1)
r = T.logical_and(T.tensor([1,0]),T.tensor([1.,1.])), T.logical_not(T.tensor([1,0])), T.tensor([1,0]).logical_or(T.tensor([0,0])), ~T.tensor([True]), ~T.tensor([5]), T.tensor([5])&3, T.tensor([True])|T.tensor([False])
r = T.tensor([1.])&1
r = T.tensor([1,2])<<1, T.tensor([4])>>1, T.tensor([1])<2, T.tensor([1.5])>=T.tensor([1]), T.tensor([1])==1.0
r = T.tensor([1])!=None
r = T.tensor(3.7).item(), int(T.tensor(3.7)), float(T.tensor(2)), bool(T.tensor(0)), T.tensor([5]).item(), T.tensor([[1,2]]).tolist(), T.tensor(3).tolist()
r = T.tensor([1,2]).item()
r = [1,2,3][T.tensor(1)]
r = range(T.tensor(3))[1]
x=T.arange(3); r=x[::0]
x=T.zeros(2,3); x[0]=1; x[:,1]=T.tensor([5.,6.]); x[1,2]=7; x[...,0]=-1; r=x
x=T.zeros(2,3); x[0]=T.tensor([1,2,3]); r=x
x=T.zeros(2,3); x[0]=T.ones(2); r=x
x=T.zeros(2,3); x[x==0]=3; r=x
x=T.zeros(2,3); x[T.tensor([0,1]),T.tensor([1,2])]=T.tensor([5.,6.]); r=x
x=T.zeros(2,3); x[[0,1],[1,2]]+=1; r=x
x=T.zeros(3); x[T.tensor([0,0])]+=1; r=x
x=T.zeros(3); x[T.tensor([True,False,True])]=T.tensor([1.,2.]); r=x
x=T.zeros(3,2); x[T.tensor([True,False,True])]=T.tensor([1.,2.]); r=x
x=T.zeros(3,2); x[T.tensor([True,False,True]),1]=T.tensor([1.,2.]); r=x
x=T.zeros(3,2); x[1:][T.tensor([True,False])]=9; r=x
x=T.zeros(3,2,dtype=T.int64); x[0]=1.7; r=x
x=T.zeros(3,2,dtype=T.int64); x[0]=T.tensor(1.7); r=x
x=T.zeros(3); x[5]=1; r=x
x=T.zeros(3); x[T.tensor([5])]=1; r=x
x=T.zeros(3); x[None,:]=4; r=x
x=T.zeros(()); r=x[0]
x=T.zeros(2,3); x.T[0]=1; r=x
x=T.zeros(2,3); y=x.view(6); y[1::2]=5; r=x,y
x=T.zeros(4); x[1:3].fill_(2); x[0:1].copy_(T.ones(1)); r=x
x=T.arange(4.); x[:2],x[2:]=x[2:].clone(),x[:2].clone(); r=x
x=T.ones(3,requires_grad=True); y=x*2; y[0]=5; y.sum().backward(); r=x.grad
x=T.ones(3,requires_grad=True); y=x*2; y[:2]*=3; y.sum().backward(); r=x.grad,y
x=T.ones(3,requires_grad=True); y=x*2; v=y[1:]; y.mul_(2); v.sum().backward(); r=x.grad,v
x=T.ones(3,requires_grad=True); y=x*2; v=y[1:]; v.mul_(2); y.sum().backward(); r=x.grad,y
x=T.ones(3,requires_grad=True); y=x.exp(); y.add_(1); y.sum().backward(); r=x.grad
x=T.ones(3,requires_grad=True); y=x.sin(); y.cos_(); y.sum().backward(); r=x.grad
x=T.ones(3,requires_grad=True); y=x*2; y.sigmoid_(); y.sum().backward(); r=x.grad
x=T.full((3,),2.,requires_grad=True); y=x*2; y.clamp_(0,3); y.sum().backward(); r=x.grad
x=T.full((3,),2.,requires_grad=True); y=x*2; y.masked_fill_(T.tensor([True,False,False]),0); y.sum().backward(); r=x.grad
x=T.full((3,),2.,requires_grad=True); y=x*2; y.copy_(T.ones(3)); y.sum().backward(); r=x.grad
x=T.full((3,),2.,requires_grad=True); z=T.zeros(3); z.copy_(x); z.sum().backward(); r=x.grad,z
x=T.full((3,),2.,requires_grad=True); z=T.zeros(3); z[1:]=x[1:]*3; z.sum().backward(); r=x.grad,z
x=T.full((3,),2.,requires_grad=True); z=T.zeros(3); z+=x; z.sum().backward(); r=x.grad,z
x=T.full((3,),2.,requires_grad=True); x.add_(1); r=x
x=T.full((3,),2.,requires_grad=True); x[0]=1; r=x
x=T.ones(2,requires_grad=True); y=(x*x).sum(); y.backward(); y.backward(); r=1
x=T.ones(2,requires_grad=True); y=(x*x).sum(); y.backward(retain_graph=True); y.backward(); r=x.grad
x=T.ones(2,requires_grad=True); (x*2).backward(); r=1
x=T.ones(2,requires_grad=True); (x*2).backward(T.ones(3)); r=1
x=T.ones(2,requires_grad=True); (x*2).backward(T.tensor([1.,2.])); r=x.grad
x=T.ones(2); x.sum().backward(); r=1
x=T.tensor(2.,requires_grad=True); g,=T.autograd.grad(x**3,x,create_graph=True); h,=T.autograd.grad(g,x); r=g,h
x=T.tensor(2.,requires_grad=True); y=T.tensor(1.,requires_grad=True); r=T.autograd.grad(x*2,[x,y],allow_unused=True)
x=T.tensor(2.,requires_grad=True); y=T.tensor(1.,requires_grad=True); r=T.autograd.grad(x*2,[x,y])
x=T.tensor(2.,requires_grad=True); y=T.tensor(1.,requires_grad=True); r=T.autograd.grad(x*2,[x,y],allow_unused=True,materialize_grads=True)
x=T.tensor(2.,requires_grad=True); y=x*3; r=T.autograd.grad(y*y,y)
x=T.ones(2,requires_grad=True); h=[]; x.register_hook(lambda g: h.append(g.sum().item())); (x*2).sum().backward(); r=h,x.grad
x=T.ones(2,requires_grad=True); x.register_hook(lambda g: g*10); (x*2).sum().backward(); r=x.grad
x=T.ones(2,requires_grad=True); y=x*2; y.register_hook(lambda g: g*10); y.sum().backward(); r=x.grad
x=T.ones(2,requires_grad=True); h=x.register_hook(lambda g: g*10); h.remove(); (x*2).sum().backward(); r=x.grad
x=T.ones(2); x.register_hook(lambda g: g); r=1
x=T.ones(2,requires_grad=True); y=x*2; y.retain_grad(); y.sum().backward(); r=y.grad,y.retains_grad,x.is_leaf,y.is_leaf
x=T.ones(2,requires_grad=True); y=x.detach(); y[0]=5; r=x,y.requires_grad
x=T.ones(2,requires_grad=True); y=x.detach().requires_grad_(); (y*2).sum().backward(); r=x.grad,y.grad
x=T.ones(2,requires_grad=True); r=(x*2).requires_grad_(False)
x=T.ones(2,requires_grad=True); y=x*2; y.requires_grad=False; r=y
x=T.ones(2,requires_grad=True); x.requires_grad=False; r=x
x=T.ones(2,dtype=T.int64); x.requires_grad_(); r=x
x=T.ones(2,requires_grad=True); x.grad=T.ones(3); r=x.grad
x=T.ones(2,requires_grad=True); x.grad=T.ones(2,dtype=T.float64); r=x.grad
x=T.ones(2,requires_grad=True); x.grad=T.ones(2); (x*2).sum().backward(); r=x.grad
x=T.ones(2,requires_grad=True); r=x.numpy()
r = T.tensor([[1,2],[3]])
r = T.tensor([T.tensor(1),T.tensor(2)]), T.tensor([T.tensor(1.5),2])
r = T.tensor([1,2.5]), T.tensor([True,2]), T.tensor([1],dtype=T.bool), T.tensor([0.5],dtype=T.int64)
x=T.ones(2,2,requires_grad=True); y=x.expand(3,2,2); y.sum().backward(); r=x.grad
x=T.ones(2,requires_grad=True); y=x+x+x; y.backward(T.ones(2)); r=x.grad
x=T.ones(2,requires_grad=True); y=T.ones(2,requires_grad=True); T.autograd.backward([x.sum(),(x*y).sum()]); r=x.grad,y.grad
x=T.ones(2,requires_grad=True); (x*2).sum().backward(inputs=[x]); r=x.grad
x=T.tensor([1.,2.],requires_grad=True); j=T.autograd.functional.jacobian(lambda a:a*a,x); r=j
x=T.tensor([1.,2.]); h=T.autograd.functional.hessian(lambda a:(a**3).sum(),x); r=h
r = T.ones(2,3)+T.ones(4)
r = T.ones(2,3).matmul(T.ones(4,2))
r = T.ones(2).to('nonsense')
r = T.ones(2).sum(5)
r = T.ones(2,2).sum((0,0))
r = T.ones(2,foo=3)
r = T.tensor([1,2]).mean()
r = T.stack([])
r = T.ones(2).view(3)
r = T.arange(0,3,-1)
r = T.ones(2,-1)
r = T.ones(2).unsqueeze(5)
r = T.ones(2).squeeze(3)
r = T.ones(2,3).transpose(0,5)
r = T.ones(2).flip(3)
r = T.ones(3).narrow(0,2,3)
r = T.ones(3).select(0,3)
r = T.ones(3).split(-1)
r = T.ones(3).chunk(0)
r = T.ones(3).repeat(-1)
r = T.ones(3).topk(5)
r = T.ones(2,3).mm(T.ones(2,3))
r = T.ones(2,3).mm(T.ones(3))
r = T.ones(2,3).bmm(T.ones(2,3))
r = T.dot(T.ones(2),T.ones(3))
r = T.ones(2).softmax(3)
r = T.zeros(2,0).max(1)
r = T.zeros(0).mean(), T.zeros(0).sum(), T.zeros(2,0).sum(1)
r = T.zeros(0).max(dim=0)
r = bool(T.tensor([]))
r = bool(T.ones(2))
r = int(T.ones(2))
r = T.ones(2).fill_(T.ones(2))
r = T.ones(2).copy_(T.ones(3))
r = T.ones(2).masked_fill(T.ones(2),1)
r = T.ones(2).index_fill(0,T.tensor([0.5]),1)
r = T.where(T.ones(2),1,2)
r = T.ones(2).scatter(0,T.tensor([0]),T.ones(1,dtype=T.int64))
r = T.ones(2).expand(3)
r = T.ones(2) @ T.ones(3)
r = T.ones(2,dtype='x')
r = T.ones(2).to(T.float64), T.ones(2).to(T.ones(1,dtype=T.int32)), T.ones(2).to('cpu',T.float16), T.ones(2).int(), T.tensor([1.7]).long(), T.tensor([300]).to(T.uint8), T.tensor([2]).bool()
r = T.tensor([-1.7]).to(T.uint8)
x=T.ones(2,3); r=x.sum(axis=0), x.mean(axis=1,keepdims=True), x.max(axis=1), x.sum(dim=(0,1),keepdim=True)
x=T.zeros(3); x[1]=float('nan'); r=x.nanmean() if hasattr(x,'nanmean') else 0, x.nansum(), x.isnan().any()
x=T.ones(2); y=x; y+=1; r=x, x is y, x._version
x=T.ones(2,dtype=T.int64); x.sqrt_(); r=x
x=T.ones(2,dtype=T.int64); x.div_(2); r=x
x=T.ones(2,dtype=T.int64); x.div_(2,rounding_mode='floor'); r=x
x=T.ones(2); x.unsqueeze(0).add_(1); r=x
x=T.arange(3); x[:]=x.flip(0); r=x
a,b=T.arange(4.).chunk(2); a.add_(10); r=a,b
x=T.zeros(1,3); y=x.expand(2,3); y[:,1]=4; r=x,y
x=T.zeros(1,3); y=x.expand(2,3); y[0,1]=4; r=x,y
x=T.zeros(1,3); y=x.expand(2,3)[1]; y.add_(2); r=x,y
x=T.zeros(1,3,requires_grad=True); b=x*1; y=b.expand(2,3)[1]; y.add_(2); b.sum().backward(); r=x.grad,b
x=T.ones(2,2,requires_grad=True); b=x*2; b.T[0].mul_(3); b.sum().backward(); r=x.grad
x=T.ones(4,requires_grad=True); b=x*2; v=b.view(2,2)[0]; v.zero_(); (b*b).sum().backward(); r=x.grad,b
x=T.ones(4,requires_grad=True); b=x*2; v=b.view(2,2); w=v[1]; w.mul_(5); v[0].add_(1); r0=b.clone(); (b*b).sum().backward(); r=x.grad,r0,v,w
x=T.ones(4,requires_grad=True); b=x*2; c=b*b; b[0]=1; c.sum().backward(); r=x.grad
x=T.ones(4,requires_grad=True); b=x*2; c=b+1; b[0]=1; c.sum().backward(); r=x.grad
x=T.ones(4,requires_grad=True); d=x.detach(); d.mul_(3); r=x,x._version
x=T.ones(4,requires_grad=True); y=x*x; d=x.detach(); d.mul_(3); y.sum().backward(); r=x.grad
x=T.ones(2,requires_grad=True); y=x*2; y.detach_(); r=y.requires_grad
x=T.ones(2,requires_grad=True); y=x[:1]; y.detach_(); r=y.requires_grad
x=T.ones(2); y=x[:1]; y.requires_grad_(); (y*2).sum().backward(); r=y.grad,x.requires_grad
x=T.ones(3,requires_grad=True); y=x.clone(); y[T.tensor([0,0])]=T.tensor([5.,6.]); y.sum().backward(); r=x.grad
x=T.ones(3,requires_grad=True); y=x.clone(); y.index_add_(0,T.tensor([0]),x[1:2]*3); y.sum().backward(); r=x.grad,y
x=T.ones(3,requires_grad=True); y=x.clone(); y.scatter_(0,T.tensor([1]),x[:1]*4); y.sum().backward(); r=x.grad,y
x=T.ones(3,requires_grad=True); y=x.clone(); y[y>0]=x*2; y.sum().backward(); r=x.grad,y
x=T.ones(3,requires_grad=True); y=x.clone(); y[1:]=x[:2]*4; y.sum().backward(); r=x.grad,y
x=T.ones(3,requires_grad=True); y=x.clone(); y+=y; y.sum().backward(); r=x.grad,y
x=T.ones(3,requires_grad=True); y=x.clone(); y*=y; y.sum().backward(); r=x.grad,y
x=T.ones(3,requires_grad=True); y=x.clone(); y/=2; y-=1; y**=2; y.sum().backward(); r=x.grad,y
x=T.ones(3,requires_grad=True); y=x.clone(); y.addcmul_(x,x,value=2); y.lerp_(x*5,0.5); y.sum().backward(); r=x.grad,y
x=T.tensor([1.,2.],requires_grad=True); y=(x**2).sum(); g=T.autograd.grad(y,x,create_graph=True)[0]; (g**2).sum().backward(); r=x.grad
x=T.tensor([[1.,2.],[3.,4.]],requires_grad=True); y=(x@x).softmax(0)[0].sum(); g=T.autograd.grad(y,x,create_graph=True)[0]; g.norm().backward(); r=x.grad
x=T.tensor([1.,2.,3.],requires_grad=True); y=x.cumprod(0).sum(); g=T.autograd.grad(y,x,create_graph=True)[0]; g.sum().backward(); r=x.grad
x=T.tensor([1.,2.,3.],requires_grad=True); y=x.max(); g=T.autograd.grad(y,x,create_graph=True)[0]; r=g
x=T.tensor([1.,3.,3.],requires_grad=True); x.max().backward(); r=x.grad
x=T.tensor([1.,3.,3.],requires_grad=True); x.amax().backward(); r=x.grad
x=T.tensor([1.,3.,3.],requires_grad=True); x.max(0)[0].backward(); r=x.grad
x=T.tensor([1.,3.,3.],requires_grad=True); x.sort()[0][0].backward(); r=x.grad
x=T.tensor([0.,3.,2.],requires_grad=True); x.prod().backward(); r=x.grad
x=T.tensor([0.,0.,2.],requires_grad=True); x.prod().backward(); r=x.grad
x=T.tensor([0.,3.,2.],requires_grad=True); x.cumprod(0).sum().backward(); r=x.grad
x=T.tensor([0.,0.],requires_grad=True); x.norm().backward(); r=x.grad
x=T.tensor([0.,4.],requires_grad=True); x.sqrt().sum().backward(); r=x.grad
x=T.tensor([0.,-1.],requires_grad=True); x.abs().sum().backward(); r=x.grad
x=T.tensor([0.,-1.],requires_grad=True); x.relu().sum().backward(); r=x.grad
x=T.tensor([0.,2.],requires_grad=True); (x**0).sum().backward(); r=x.grad
x=T.tensor([0.,2.],requires_grad=True); (x**2).sum().backward(); r=x.grad
x=T.tensor([0.,2.],requires_grad=True); (0**x).sum().backward(); r=x.grad
x=T.tensor([0.,2.],requires_grad=True); (x**T.tensor([0.,3.])).sum().backward(); r=x.grad
x=T.tensor([1.,2.],requires_grad=True); T.maximum(x,T.tensor([1.,1.])).sum().backward(); r=x.grad
x=T.tensor([1.,2.],requires_grad=True); x.clamp(1,2).sum().backward(); r=x.grad
x=T.tensor([1.,2.],requires_grad=True); T.where(x>1,x.log(),T.zeros(2)).sum().backward(); r=x.grad
x=T.tensor([1.,2.],requires_grad=True); x.var(unbiased=True).backward(); r=x.grad
x=T.tensor([1.],requires_grad=True); x.var().backward(); r=x.grad
x=T.tensor([2.,2.],requires_grad=True); x.std().backward(); r=x.grad
x=T.tensor([2.,2.],requires_grad=True); x.logsumexp(0).backward(); r=x.grad
x=T.tensor([1.,2.],requires_grad=True); (x.unsqueeze(0).expand(3,2)*T.ones(3,1)).sum().backward(); r=x.grad
a=T.ones(3,requires_grad=True); b=T.ones(3,2,requires_grad=True); (a@b).sum().backward(); r=a.grad,b.grad
a=T.ones(3,requires_grad=True); b=T.ones(3,requires_grad=True); (a@b).backward(); r=a.grad,b.grad
a=T.ones(3,requires_grad=True,dtype=T.float16); (a.float()*2).sum().backward(); r=a.grad
a=T.ones(3,requires_grad=True); b=a.sum(); b.backward(T.tensor(2.)); r=a.grad
a=T.ones(3,requires_grad=True); b=a*2; b.backward(T.ones(3,dtype=T.float64)); r=a.grad
a=T.ones(3,requires_grad=True); b=(a*2).sum(); r=T.autograd.grad(b,a,T.tensor(3.))
a=T.ones(3,requires_grad=True); b=a*2; r=T.autograd.grad(b,a)
a=T.ones(3,requires_grad=True); b=a*2; r=T.autograd.grad(b,a,T.ones(3),is_grads_batched=False)
a=T.ones(3,requires_grad=True); b=(a*2).detach(); r=T.autograd.grad(b.sum(),a)
a=T.ones(3); r=T.autograd.grad((a*2).sum(),a)
a=T.ones(2,requires_grad=True); h=[]; b=a*2; c=b*3; b.register_hook(lambda g:h.append('b')); c.register_hook(lambda g:h.append('c')); a.register_hook(lambda g:h.append('a')); c.sum().backward(); r=h
a=T.ones(2,requires_grad=True); a.register_hook(lambda g:g+1); a.register_hook(lambda g:g*2); (a*1).sum().backward(); r=a.grad
a=T.ones(2,requires_grad=True); b=a*2; b.register_hook(lambda g:g+1); b.mul_(3); b.register_hook(lambda g:g*10); b.sum().backward(); r=a.grad
a=T.ones(2,requires_grad=True); b=a*2; r=b.grad_fn.next_functions[0][0] is not None, b.is_leaf, b.grad_fn.name()
x=T.arange(5); r=x[1:-1],x[-3:],x[:100],x[3:1],x[-100:2],x[1::2]
x=T.arange(3,dtype=T.uint8); r=T.arange(3)[x.long()], T.tensor([10,20,30])[T.tensor([1,0,1],dtype=T.uint8)]
r=T.arange(3)[T.tensor([0,1],dtype=T.int32)], T.arange(3)[T.tensor([0,1],dtype=T.int8)]
r=T.tensor([1,2,3]).type_as(T.ones(1)), T.ones(2).double().dtype, T.ones(2).to(dtype=T.int8).dtype, T.ones(2,dtype=T.float16).float().dtype
r=(T.ones(2,dtype=T.bfloat16)/3), T.ones(2,dtype=T.float16)/3, (T.ones(3,dtype=T.bfloat16)*1.1).sum()
r=T.tensor([1.5,2.5,-0.5]).round(), T.tensor([-7]).div(2,rounding_mode='trunc'), T.tensor([-7]).div(2,rounding_mode='floor'), T.tensor([-7.]).fmod(3), T.tensor([7]).remainder(-3), T.tensor([5]).true_divide(2)
r=T.tensor([1,2,3])//0
r=T.tensor([1.,2,3])//0, T.tensor([1.])%0, T.tensor([1.])/0
r=T.ones(2,3).norm(dim=(0,1)), T.ones(2,3).norm('fro'), T.ones(4).norm(0), T.ones(2,3).norm(2,1,True)
r=T.cat((T.ones(2,0),T.ones(2,1)),1), T.cat([T.ones(0),T.ones(2,2)]), T.concat([T.ones(1),T.ones(1)]), T.concatenate([T.ones(1)],axis=0)
""".strip().splitlines()

MORE = [*GRADIENTS, *PLAIN]
