"""A router's decisions, without sockets and clocks: events of one service go in, actions as data come out."""
