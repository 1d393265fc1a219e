/** Ports below 1024 that serve HTTP. */
const HTTP_PORTS: ReadonlySet<number> = new Set([80, 443]);

/**
 * Ports above 1023 of services that obey a line of text or need no password inside a network, with the service.
 * The first group is also refused by browsers (Fetch Standard, section "Port blocking").
 */
const SERVICE_PORTS: ReadonlyMap<number, string> = new Map([
  [1719, 'H.323'],
  [1720, 'H.323'],
  [1723, 'PPTP'],
  [2049, 'NFS'],
  [3659, 'Apple SASL'],
  [4045, 'NFS lock daemon'],
  [4190, 'ManageSieve'],
  [5060, 'SIP'],
  [5061, 'SIP'],
  [6000, 'X11'],
  [6566, 'SANE'],
  [6665, 'IRC'],
  [6666, 'IRC'],
  [6667, 'IRC'],
  [6668, 'IRC'],
  [6669, 'IRC'],
  [6679, 'IRC'],
  [6697, 'IRC'],
  [10080, 'Amanda'],

  [1433, 'SQL Server'],
  [1521, 'Oracle'],
  [2375, 'Docker'],
  [2376, 'Docker'],
  [2379, 'etcd'],
  [2380, 'etcd'],
  [3306, 'MySQL'],
  [3389, 'RDP'],
  [4369, 'Erlang'],
  [5432, 'PostgreSQL'],
  [5672, 'AMQP'],
  [5900, 'VNC'],
  [5984, 'CouchDB'],
  [5985, 'WinRM'],
  [5986, 'WinRM'],
  [6379, 'Redis'],
  [7001, 'Cassandra'],
  [8086, 'InfluxDB'],
  [8500, 'Consul'],
  [9042, 'Cassandra'],
  [9092, 'Kafka'],
  [9200, 'Elasticsearch'],
  [9300, 'Elasticsearch'],
  [10250, 'kubelet'],
  [10255, 'kubelet'],
  [11211, 'memcached'],
  [27017, 'MongoDB'],
]);

/** Returns why a port must not be called; null if it may. */
export function faultOfPort(port: number): string | null {
  const service = SERVICE_PORTS.get(port);
  if (service !== undefined) return `the port ${port} belongs to ${service}`;
  return HTTP_PORTS.has(port) || port > 1023
    ? null
    : `the port ${port} serves no HTTP; use 80, 443 or a port above 1023`;
}
