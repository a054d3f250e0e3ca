/* SPDX-License-Identifier: MIT */
#include "diag/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/connection.h"

#define REQUEST_BYTES_FIRST 512u
/* Bytes after the request that are read before a close, so that the kernel sends no reset. */
#define REST_BYTES_MAX 65536u

bool rp_client_is_ports_own(const struct rp_client *client)
{
	return !client->port->listens && client->state == RP_CLIENT_ASKS;
}

uint8_t *rp_client_request(struct rp_client *client)
{
	return client->request ? client->request : client->first;
}

/* Memory grows with the bytes received, not with the size that the header announces. */
static int grow(struct rp_client *client)
{
	size_t capacity = client->request ? 2 * client->request_capacity : REQUEST_BYTES_FIRST;
	uint8_t *grown = realloc(client->request, capacity);

	if (!grown)
		return -ENOMEM;
	if (!client->request)
		memcpy(grown, client->first, client->request_bytes);
	client->request = grown;
	client->request_capacity = capacity;
	return 0;
}

static size_t capacity_of(const struct rp_client *client)
{
	return client->request ? client->request_capacity : sizeof(client->first);
}

int rp_client_receive(struct rp_client *client, enum rp_hresult *ret_hresult)
{
	for (;;) {
		size_t wanted = 0;
		enum rp_hresult hr = rp_message_frame(rp_client_request(client),
						      client->request_bytes, &wanted);
		size_t n;
		int r;

		if (hr != RP_HRESULT_OK || client->request_bytes == wanted) {
			*ret_hresult = hr;
			return 1;
		}
		if (client->request_bytes == capacity_of(client) && grow(client) < 0)
			return -ENOMEM;
		if (wanted > capacity_of(client))
			wanted = capacity_of(client);
		r = rp_connection_receive(client->fd,
					  rp_client_request(client) + client->request_bytes,
					  wanted - client->request_bytes, &n);
		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		if (n == 0)
			return -EPIPE;
		client->request_bytes += n;
	}
}

int rp_client_take_descriptor(struct rp_client *client, int *ret_fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec piece = { &byte, sizeof(byte) };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		/* Exclude the padding: the kernel would put a second descriptor there. */
		.msg_controllen = CMSG_LEN(sizeof(int)),
	};
	struct cmsghdr *part;
	ssize_t n;

	do {
		n = recvmsg(client->fd, &message, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n == 0 ? -EPIPE : errno == EAGAIN ? 0 : -errno;
	part = CMSG_FIRSTHDR(&message);
	if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS ||
	    part->cmsg_len != CMSG_LEN(sizeof(int)))
		return -EBADMSG;
	memcpy(ret_fd, CMSG_DATA(part), sizeof(int));
	return 1;
}

int rp_client_send(struct rp_client *client)
{
	int r = rp_connection_send(client->fd, client->reply.bytes, client->reply.size,
				   &client->sent_bytes);

	return r == 0 ? 1 : r == -EAGAIN ? 0 : r;
}

int rp_client_drain(struct rp_client *client)
{
	char rest[1024];
	ssize_t n;

	do {
		n = recv(client->fd, rest, sizeof(rest), 0);
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n == 0)
		return 1;
	return errno == EAGAIN ? 0 : -errno;
}

void rp_client_release(struct rp_client *client)
{
	client->fd = -1;
	free(client->request);
	rp_message_fini(&client->reply);
	*client = (struct rp_client){ .fd = -1 };
}

void rp_client_close(struct rp_client *client)
{
	char rest[1024];
	int fd = client->fd;

	for (size_t n = 0; n < REST_BYTES_MAX / sizeof(rest); n++) {
		if (recv(fd, rest, sizeof(rest), MSG_DONTWAIT) <= 0)
			break;
	}
	/* A forked child may hold the connection too: shut down, so that the peer sees the end. */
	shutdown(fd, SHUT_RDWR);
	close(fd);
	rp_client_release(client);
}
