"""`thinwire join` at an address where something takes connections and then does not answer."""

import socket
import threading
import unittest

from hosts_case import HostsCase

ATTEMPT = 30  # seconds in which a server must go on answering
INFO = (b'INFO {"server_id":"S","version":"2.9.10","proto":1,"headers":true,"max_payload":1048576,'
        b'"tls_required":true,"nonce":"nonce"}\r\n')


class Stall:
    """Takes connections, greets them and never says anything more. They stay open until the end."""

    def __init__(self, greeting, port=0):
        self.greeting, self.taken = greeting, []
        self.socket = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                client = self.socket.accept()[0]
            except OSError:
                return
            self.taken.append(client)
            client.sendall(self.greeting)

    def stop_listening(self):
        """The connections that it has taken stay open."""
        if self.thread.is_alive():
            self.socket.shutdown(socket.SHUT_RDWR)
            self.thread.join()
            self.socket.close()

    def end(self):
        self.stop_listening()
        for client in self.taken:
            client.close()


class StallingServers(HostsCase):
    def stall(self, greeting, port=0):
        server = Stall(greeting, port)
        self.addCleanup(server.end)
        return server

    def test_a_join_says_what_it_waits_for_and_goes_on_when_the_server_is_back(self):
        fields = ("train.workers=1", "sync.method=distro", "train.steps=5")
        self.serve(*fields).kill()
        silent, stalling = self.stall(b""), self.stall(INFO)
        hasty = {one: self.join(name, "--wait", "0", address=one.address)
                 for name, one in (("silent", silent), ("stalling", stalling))}
        doctor = self.start("doctor", stalling.address, "--token", self.ready["token"])
        address = self.ready["address"]
        squatter = self.stall(INFO, int(address.rsplit(":", 1)[1]))
        patient = self.join("member0")
        patient.wait_for(f"nobody answers at {address}; waits for the run's server, up to 10 min")
        patient.wait_for(f"the server took the connection, but then did not answer for {ATTEMPT} s")
        squatter.stop_listening()
        server = self.serve(*fields)
        self.assertEqual(self.ready["address"], address)
        self.assert_complete(server, member0=patient)
        for one, process in hasty.items():
            self.assert_refused(process, 1, f"cannot reach the run at {one.address}")
        for process in (hasty[stalling], doctor):
            self.assert_refused(process, 1, f"did not answer for {ATTEMPT} s")


if __name__ == "__main__":
    unittest.main()
