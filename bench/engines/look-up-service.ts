/** A service that HTTP tools call. Tells its parent its port, and ends with it. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { lookUp } from '../workload.ts';

const server = createServer((request, response) => {
  request.resume().on('end', () => response.end(lookUp({ customer: request.url, depth: 1 })));
});
server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 }, () => {
  process.send?.((server.address() as AddressInfo).port);
});
process.on('disconnect', () => process.exit(0));
