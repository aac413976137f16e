// Package etcdtest runs etcd for tests: clusters of etcd 3.7 whose members are processes of their own (the test binary,
// started again), which can be killed, stopped and cut off from each other, and the etcd that the system has installed.
package etcdtest
