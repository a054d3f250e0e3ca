# SPDX-License-Identifier: MIT
"""The parts of bench/servers.py for redis: GETs and SETs of three bytes by 16 clients."""

import contextlib
import os
import subprocess

import callgrind
import servers
from redis_case import HERE, Server, build_module, drive, why_not as redis_why_not

UNIT, UNITS = 'command', 'commands'
WAYS = servers.ways('redis:1', 'redis')
CONNECTIONS = 16
CAN_START_SESSION = True
EMPTY_MODULE = b"""
#include "api.h"

int RedisModule_OnLoad(void **context);

int RedisModule_OnLoad(void **context)
{
	int (*get)(const char *name, void *ret_function) = *context;
	void (*set_attributes)(void *context, const char *name, int version, int api_version);

	if (get("RedisModule_SetModuleAttribs", &set_attributes) != REDIS_OK)
		return REDIS_ERROR;
	set_attributes(context, "empty", 1, REDIS_API_VERSION);
	return REDIS_OK;
}
"""


def why_not():
    return redis_why_not()


def prepare(build, folder):
    return build_module(build, folder)[0]


def prepare_empty(folder):
    """The instructions that redis executes for any module are not a cost of this one."""
    path = os.path.join(folder, 'empty')
    os.mkdir(path)
    subprocess.run(['cc', '-shared', '-fPIC', '-I', HERE, '-o', path + '/ringpipe.so', '-x', 'c',
                    '-'], check=True, input=EMPTY_MODULE)
    return path


class Load:
    """redis under the load of redis-benchmark, which repeats its tests without an end."""

    def __init__(self, module, folder, _ringpipe):
        self.server = Server(module, folder)
        self.server.start()
        self.client = self.server.connect()
        self.stack = contextlib.ExitStack()
        self.stack.callback(self.server.stop)
        self.stack.callback(self.client.close)
        load = self.stack.enter_context(drive.running(
            ['redis-benchmark', '-p', str(self.server.port), '-c', str(CONNECTIONS), '-q', '-l',
             '-t', 'get,set'], stdout=subprocess.DEVNULL))
        self.pids = [self.server.process.pid, load.pid]
        self.traced = [self.server.process.pid]

    def count(self):
        text = self.client.run('info', 'stats')
        return int(text.split('total_commands_processed:')[1].split()[0])

    def close(self):
        self.stack.close()


def instructions(module, folder, _ringpipe, count):
    # The server's cron runs by time, and valgrind is slow, so it is to run as rarely as it can.
    server = Server(module, os.path.realpath(folder), '--hz', '1', '--dynamic-hz', 'no')

    def work():
        # One client, which waits for each reply.
        subprocess.run(['redis-benchmark', '-p', str(server.port), '-c', '1', '-q', '-n',
                        str(count // 2), '-t', 'get,set'], check=True, stdout=subprocess.DEVNULL)

    return callgrind.server_instructions(server, work)
