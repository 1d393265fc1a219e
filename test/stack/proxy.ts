import { once } from 'node:events';
import { createServer, request as ask } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';

/** What becomes of an answer: it is passed on, it is lost once the API has acted, or the request never reaches the API. */
export type Fate = 'pass' | 'drop' | 'hang';

/** Starts a proxy before an API, for one test. Returns its URL. */
export async function startProxy(
  apiUrl: string,
  fateOf: (method: string, path: string, body: string) => Fate,
): Promise<string> {
  const proxy = createServer((request, response) => {
    void buffer(request).then((body) => {
      const { method = 'GET', url = '/', headers } = request;
      const fate = fateOf(method, url, body.toString());
      if (fate === 'hang') return;
      const passed = ask(`${apiUrl}${url}`, { method, headers }, (answer) => {
        if (fate === 'drop') answer.resume().once('end', () => request.socket.destroy());
        else answer.pipe(response.writeHead(answer.statusCode ?? 502, answer.headers));
      });
      passed.end(body);
    });
  }).listen(0, '127.0.0.1');
  onTestFinished(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  await once(proxy, 'listening');
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}
