# SPDX-License-Identifier: MIT
# Read by nginx's configure: the rule of the file that links with libringpipe.
cat <<END >>"$NGX_MAKEFILE"

ringpipe_trace:	$ngx_addon_dir/*.[ch]
	\$(CC) \$(CFLAGS) \$(ALL_INCS) -D_GNU_SOURCE -fvisibility=hidden -shared \\
		-o $NGX_OBJS/ngx_ringpipe_trace.so $ngx_addon_dir/trace.c \\
		$ngx_addon_dir/request.c $ngx_addon_dir/upstream.c \\
		$ngx_addon_dir/connection.c $ngx_addon_dir/log.c \\
		$ngx_addon_dir/diagnostics.c $(pkg-config --libs ringpipe)
END
