import Fastify, { type FastifyInstance } from 'fastify';
import type { App } from './context.ts';

const PATH = '/docs';
const SCRIPT = `${PATH}/js/scalar.js`;

/** The page has inline script and style, and loads nothing from other hosts. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Unit: seconds. A browser keeps the script of five megabytes. */
const SCRIPT_MAX_AGE = 3_600;

/**
 * Serves the reference of the API as a page, without a key. Loads the page's library with the first request, because it takes
 * megabytes of memory.
 */
export function serveReferencePage(app: App): void {
  let pages: Promise<FastifyInstance> | undefined;
  for (const path of [PATH, SCRIPT]) {
    app.get(path, { schema: { hide: true } }, async ({ url }, reply) => {
      const { statusCode, headers, rawPayload } = await (await (pages ??= openPages())).inject({ url });
      if (headers.location !== undefined) return reply.redirect(headers.location, statusCode);
      if (path === SCRIPT) void reply.header('cache-control', `public, max-age=${SCRIPT_MAX_AGE}`);
      return reply
        .header('content-security-policy', CONTENT_SECURITY_POLICY)
        .type(headers['content-type']?.toString() ?? 'text/html')
        .send(rawPayload);
    });
  }
}

/** Opens the library's routes as a server that does not listen. */
async function openPages(): Promise<FastifyInstance> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const pages = Fastify({ routerOptions: { ignoreTrailingSlash: true } });
  await pages.register(scalar, {
    routePrefix: PATH,
    configuration: {
      url: '/openapi.json',
      pageTitle: 'Nightshift API',
      servers: [{ url: '/' }],
      telemetry: false,
      withDefaultFonts: false,
      showDeveloperTools: 'never',
      hideClientButton: true,
      mcp: { disabled: true },
      agent: { disabled: true },
    },
  });
  return pages;
}
