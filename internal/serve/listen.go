package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// unixPrefix begins an address that is a path of a Unix socket.
const unixPrefix = "unix:"

// socketMode lets the socket's owner and group ask.
const socketMode = 0o660

// Remote says that an address can be reached from other machines.
type Remote struct{ Address string }

func (e Remote) Error() string { return e.Address + " can be reached from other machines" }

// Listen opens addresses: HOST:PORT, or unix:PATH. Unless remote is allowed it returns a Remote for an address that other
// machines can reach. On an error nothing is open.
func Listen(remote bool, addresses ...string) (list []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range list {
				l.Close()
			}
			list = nil
		}
	}()

	for _, address := range addresses {
		l, err := listen(address, remote)
		if err != nil {
			return list, err
		}
		list = append(list, l)
	}
	return list, nil
}

func listen(address string, remote bool) (net.Listener, error) {
	if path, isPath := strings.CutPrefix(address, unixPrefix); isPath {
		return listenUnix(path)
	}

	// The address that was looked at is the one that is opened: a name may mean another one a moment later.
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	if !at.IP.IsLoopback() && !remote {
		return nil, Remote{address}
	}
	return net.ListenTCP("tcp", at)
}

// listenUnix opens a socket. One that a process has left behind, which was killed, is replaced.
func listenUnix(path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s exists and is no socket", path)
	default:
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			conn.Close()
			return nil, fmt.Errorf("%s is in use by another process", path)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}

	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
