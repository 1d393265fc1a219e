import { existsSync } from 'node:fs';
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import { z } from 'zod';
import type { App } from './context.ts';

/** The only sources of a page are the API's own files. Pages hold text of models: no markup of theirs may run. */
const CONTENT_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ');

/** First parts of the addresses of pages; the page itself reads the rest. */
const PAGES = [
  'batches',
  'runs',
  'review',
  'memories',
  'blocks',
  'schedules',
  'workers',
  'settings',
] as const;

/** The page itself reads its filters. */
const FILTERS = z.looseObject({});

const NOT_BUILT =
  'The dashboard is not built, and the API works without it. `npm start` builds it, as does `npm run build-dashboard`.\n';

/**
 * Serves the built dashboard: hashed files for ever, the page itself never cached. Without built files `/` says so.
 * Public: the page asks for a key.
 */
export function serveDashboard(app: App, directory: string): void {
  const isBuilt = existsSync(join(directory, 'index.html'));
  if (isBuilt)
    void app.register(fastifyStatic, {
      root: directory,
      wildcard: false,
      index: false,
      preCompressed: true,
      cacheControl: false,
      schemaHide: true,
      setHeaders: (reply, path) => {
        const isHashed = path.includes('/assets/');
        void reply.header('cache-control', isHashed ? 'public, max-age=31536000, immutable' : 'no-cache');
      },
      globIgnore: ['index.html', '**/*.gz', '.stamp'],
    });
  for (const path of ['/', ...PAGES.flatMap((page) => [`/${page}`, `/${page}/*`])])
    app.get(path, { schema: { hide: true, querystring: FILTERS } }, async (_request, reply) => {
      if (!isBuilt) return reply.code(404).type('text/plain; charset=utf-8').send(NOT_BUILT);
      return reply
        .header('content-security-policy', CONTENT_POLICY)
        .header('referrer-policy', 'no-referrer')
        .header('x-frame-options', 'DENY')
        .sendFile('index.html', { cacheControl: false });
    });
}
