package importer

import (
	"slices"
	"strings"
)

// nginxRead are the directives that the importer reads, or that hold blocks with such directives.
var nginxRead = []string{
	"limit_req_zone", "limit_req", "limit_req_dry_run", "limit_req_status", "limit_req_log_level", "map", "geo", "split_clients",
	"server", "location", "server_name", "listen", "return", "rewrite", "if", "limit_except", "http",
}

// nginxTables have entries instead of directives.
var nginxTables = []string{"map", "geo", "split_clients", "types", "upstream", "match"}

const byAddress = "give httplimit.Config.ClientIP the same proxies: request.ip is the connection's address otherwise"

// nginxReasons are directives that limit, or that change a limit's effect.
var nginxReasons = map[string]string{
	"limit_conn":         "limits connections, not requests",
	"limit_conn_zone":    "limits connections, not requests",
	"limit_conn_status":  "limits connections, not requests",
	"limit_conn_dry_run": "limits connections, not requests",
	"limit_rate":         "limits bytes, not requests",
	"limit_rate_after":   "limits bytes, not requests",
	"set_real_ip_from":   byAddress,
	"real_ip_header":     byAddress,
	"real_ip_recursive":  byAddress,
	"internal_redirect":  "the location may be another one afterwards: policies go by the path that was asked for",
	"auth_delay":         "delays requests that are not authorized",
}

// nginxCore are directives outside of http that say how the program runs.
var nginxCore = setOf(`daemon debug_points env error_log load_module lock_file master_process pcre_jit pid ssl_engine thread_pool
	timer_resolution user worker_cpu_affinity worker_priority worker_processes worker_rlimit_core worker_rlimit_nofile
	worker_shutdown_timeout working_directory`)

// nginxHarmless are directives that neither limit requests nor decide which are limited: they come in later phases, or say how a
// response is made. Those of a family are named by their first part.
var (
	nginxHarmless = setOf(`absolute_redirect access_log aio aio_write alias allow autoindex autoindex_exact_size autoindex_format
	autoindex_localtime break charset charset_map charset_types chunked_transfer_encoding client_body_buffer_size
	client_body_in_file_only client_body_in_single_buffer client_body_temp_path client_body_timeout client_header_buffer_size
	client_header_timeout client_max_body_size connection_pool_size default_type deny directio directio_alignment
	disable_symlinks empty_gif error_log error_page etag expires add_header add_header_inherit add_trailer flv if_modified_since
	ignore_invalid_headers index internal keepalive_disable keepalive_min_timeout keepalive_requests keepalive_time
	keepalive_timeout large_client_header_buffers lingering_close lingering_time lingering_timeout log_format log_not_found
	log_subrequest max_ranges memcached_pass merge_slashes min_delete_depth mirror mirror_request_body mp4 msie_padding
	msie_refresh output_buffers override_charset port_in_redirect postpone_output proxy_pass random_index read_ahead
	recursive_error_pages referer_hash_bucket_size request_pool_size reset_timedout_connection resolver resolver_timeout
	root satisfy secure_link secure_link_md5 send_lowat send_timeout sendfile sendfile_max_chunk server_name_in_redirect
	server_names_hash_bucket_size server_names_hash_max_size server_tokens set slice source_charset ssi ssl stub_status sub_filter
	subrequest_output_buffer_size tcp_nodelay tcp_nopush try_files types types_hash_bucket_size types_hash_max_size
	underscores_in_headers upstream userid valid_referers variables_hash_bucket_size variables_hash_max_size
	map_hash_bucket_size map_hash_max_size http2 http3 server_names brotli rewrite_log uninitialized_variable_warn`)
	nginxFamilies = []string{
		"proxy_", "fastcgi_", "uwsgi_", "scgi_", "grpc_", "memcached_", "gzip", "gunzip", "ssl_", "http2_", "http3_", "quic_",
		"open_file_cache", "open_log_file_cache", "auth_basic", "auth_request", "auth_jwt", "image_filter", "xslt_", "ssi_", "sub_filter_",
		"perl_", "js_", "geoip_", "brotli_", "dav_", "userid_", "secure_link_", "mp4_", "zstd_", "otel_", "vhost_traffic_status_",
	}
)

func setOf(names string) map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Fields(names) {
		set[name] = true
	}
	return set
}

func nginxKnown(name string) bool {
	inFamily := func(family string) bool { return strings.HasPrefix(name, family) }
	return nginxHarmless[name] || nginxCore[name] || slices.ContainsFunc(nginxFamilies, inFamily)
}
