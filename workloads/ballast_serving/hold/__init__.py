"""The router pod: a request waits here while no engine is ready, and goes to the engine that knows its prefix.

engines -> who is there and ready, from DNS and their own probes
balancer -> vllm-router as a child process, told of engines as they come and go
proxy -> the way of one request: held, forwarded, retried while nothing was answered
server -> ports, probes, drain
"""
