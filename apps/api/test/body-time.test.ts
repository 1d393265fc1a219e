import { once } from 'node:events';
import { connect, type AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import Fastify from 'fastify';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { limitBodyTime } from '../src/body-time.ts';
import type { App } from '../src/context.ts';
import { acceptLines, uploadOf } from '../src/uploads/line-upload.ts';

const app = Fastify({ keepAliveTimeout: 0 }) as unknown as App;
beforeAll(async () => {
  limitBodyTime(app, 50);
  acceptLines(app);
  app.post('/body', async () => 'whole');
  app.post('/lines', { config: { takesLines: 'in_portions' } }, async (request) => {
    const upload = uploadOf(request);
    return upload === undefined ? 'none' : text(upload);
  });
  app.post(
    '/keyed',
    { config: { takesLines: 'in_portions' }, onRequest: async (_, reply) => reply.code(401).send('no key') },
    async () => 'never',
  );
  await app.listen({ port: 0 });
});
afterAll(() => app.close());

const open = (path: string, type: string, connection = 'close') => {
  const socket = connect((app.server.address() as AddressInfo).port);
  socket.setEncoding('utf8');
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: ${connection}\r\nContent-Type: ${type}\r\nContent-Length: 4\r\n\r\n12`,
  );
  return socket;
};

test('a body that takes longer than its time is answered 408, and its connection closed', async () => {
  const answer = await text(open('/body', 'application/json'));
  expect(answer).toMatch(/^HTTP\/1\.1 408 .*did not arrive in time/s);
});

test('an upload may take longer', async () => {
  const slow = open('/lines', 'application/jsonl');
  // Opened later, so its time ends later too.
  await once(open('/body', 'application/json'), 'data');
  slow.write('34');
  expect(await text(slow)).toMatch(/^HTTP\/1\.1 200 .*1234/s);
});

test('an upload without a key does not hold its connection for longer', async () => {
  expect(await text(open('/keyed', 'application/jsonl', 'keep-alive'))).toMatch(/^HTTP\/1\.1 401 /);
});
