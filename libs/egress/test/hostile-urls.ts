import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect, isIP, type AddressInfo, type LookupFunction } from 'node:net';
import type { LookupAddress } from 'node:dns';
import { isPrivateAddress, type EgressDialer } from '../src/index.ts';

/** A URL that must reach nothing. `CANARY` stands for the canary's port, `PUBLIC` for the port of the public server. */
export interface HostileUrl {
  readonly name: string;
  readonly url: string;
  /** Addresses of the URL's name: the answer of each lookup in turn, the last one again and again. */
  readonly answers?: readonly (readonly string[])[];
}

/** An address without any server of the tests, routed nowhere. */
const PUBLIC_ADDRESS = '93.184.216.34';
const PUBLIC_NAME = 'public.example';

/** Spellings of loopback, which would reach the canary without a guard. */
const LOOPBACK_HOSTS = [
  '127.0.0.1',
  '127.0.0.2',
  '127.255.255.254',
  '127.1',
  '127.0.1',
  '2130706433',
  '017700000001',
  '0177.0.0.1',
  '0177.0.0.01',
  '0177.0.1',
  '00000177.1',
  '0x7f000001',
  '0x7F.1',
  '0x7f.0.0.1',
  '0x7f.0x0.0x0.0x1',
  '0x000000007f.1',
  '127.0x0.0.01',
  '127.0.0.1.',
  '%31%32%37.0.0.1',
  '127%2E0%2E0%2E1',
  '①②⑦.⓪.⓪.①',
  '１２７.０.０.１',
  '127。0。0。1',
  '127．0．0．1',
  '𝟙𝟚𝟟.𝟘.𝟘.𝟙',
  '12\t7.0.0.1',
  '0',
  '0.0.0.0',
  '0x0',
  '00',
  '0.0',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[::0001]',
  '[::]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::FFFF:7F00:0001]',
  '[0:0:0:0:0:ffff:127.0.0.1]',
  '[::ffff:0.0.0.0]',
];

/** Other addresses without public receivers. */
const PRIVATE_HOSTS = [
  '10.0.0.1',
  '0x0a000001',
  '167772161',
  '012.0.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '3232235777',
  '192.168.257',
  '100.64.0.1',
  '169.254.169.254',
  '169.254.43518',
  '0xa9fea9fe',
  '2852039166',
  '0251.0376.0251.0376',
  '169.254.170.2',
  '192.0.0.192',
  '198.18.0.1',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
  '192.0.2.1',
  '[::ffff:10.0.0.1]',
  '[::ffff:a9fe:a9fe]',
  '[::127.0.0.1]',
  '[::7f00:1]',
  '[::a9fe:a9fe]',
  '[::ffff:0:7f00:1]',
  '[64:ff9b::127.0.0.1]',
  '[64:ff9b::7f00:1]',
  '[64:ff9b::a9fe:a9fe]',
  '[64:ff9b:1::a00:1]',
  '[2002:7f00:1::]',
  '[2002:7f00:1::1]',
  '[2002:a9fe:a9fe::]',
  '[2001:0:7f00:1::]',
  '[fe80::1]',
  '[fec0::1]',
  '[fd00::1]',
  '[fd00:ec2::254]',
  '[fc00::1]',
  '[ff02::1]',
  '[2001:db8::1]',
  '[100::1]',
];

/** URLs that are refused for their form. */
const FORMS = [
  'http://[fe80::1%25eth0]:CANARY/',
  'http://[fe80::1%eth0]:CANARY/',
  'http://[::1%25lo]:CANARY/',
  'http://user@127.0.0.1:CANARY/',
  'http://user:pass@public.example:PUBLIC/',
  'http://public.example@127.0.0.1:CANARY/',
  'http://public.example:80@127.0.0.1:CANARY/',
  'http://public.example%40127.0.0.1:CANARY/',
  'http://127.0.0.1:CANARY#@public.example/',
  'http://127.0.0.1:CANARY?@public.example/',
  'http://127.0.0.1:CANARY\\@public.example/',
  'http://public.example\\@127.0.0.1:CANARY/',
  'http:127.0.0.1:CANARY/',
  'http:/127.0.0.1:CANARY/',
  'http:\\\\127.0.0.1:CANARY\\',
  'HTTP://127.0.0.1:CANARY/',
  '\thttp://127.0.0.1:CANARY/',
  'http://127.0.0.1:0/',
  'http://public.example:22/',
  'http://public.example:25/',
  'http://public.example:6379/',
  'http://public.example:5432/',
  'http://public.example:11211/',
  'http://public.example:2375/',
  'https://public.example:9200/',
  'file:///etc/hostname',
  'ftp://127.0.0.1:CANARY/',
  'gopher://127.0.0.1:CANARY/_GET%20/',
  'ws://127.0.0.1:CANARY/',
  'data:text/plain,x',
  'javascript:1',
  'blob:http://127.0.0.1:CANARY/x',
  '//127.0.0.1:CANARY/',
  'http://',
  'http://1.2.3.4.5/',
  'http://256.256.256.256/',
];

/** Names that lead inside, by their lookups. */
const NAMES: readonly (readonly [host: string, ...answers: (readonly string[])[]])[] = [
  ['localhost', ['127.0.0.1']],
  ['LOCALHOST.', ['::1']],
  ['a.localhost', ['127.0.0.1', '::1']],
  ['metadata.google.internal', ['169.254.169.254']],
  ['metadata', ['169.254.169.254']],
  ['instance-data.ec2.internal', ['fd00:ec2::254']],
  ['kubernetes.default.svc', ['10.96.0.1']],
  ['host.docker.internal', ['172.17.0.1']],
  ['127.0.0.1.nip.example', ['127.0.0.1']],
  ['mapped.example', ['::ffff:127.0.0.1']],
  ['translated.example', ['64:ff9b::7f00:1']],
  ['scoped.example', ['fe80::1%eth0']],
  ['mixed.example', [PUBLIC_ADDRESS, '127.0.0.1']],
  ['mixed-last.example', ['127.0.0.1', PUBLIC_ADDRESS]],
  ['mixed-six.example', [PUBLIC_ADDRESS, '::1']],
  ['rebinding.example', [PUBLIC_ADDRESS], ['127.0.0.1']],
  ['rebinding-twice.example', [PUBLIC_ADDRESS], [PUBLIC_ADDRESS], ['169.254.169.254']],
  ['rebinding-back.example', ['127.0.0.1'], [PUBLIC_ADDRESS], ['127.0.0.1']],
  ['xn--.example', []],
  ['lοcalhost', ['127.0.0.1']],
];

const REDIRECTED = [
  'http://127.0.0.1:CANARY/',
  'http://2130706433:CANARY/',
  'http://[::1]:CANARY/',
  'http://[::ffff:7f00:1]:CANARY/',
  'http://169.254.169.254/latest/meta-data/',
  '//127.0.0.1:CANARY/',
  'http://user:pass@public.example:PUBLIC/',
  'http://public.example:6379/',
  'file:///etc/hostname',
  'http://localhost:CANARY/',
  'http://',
];

function redirect(to: string): string {
  return `http://${PUBLIC_NAME}:PUBLIC/?to=${encodeURIComponent(to)}`;
}

/** Spellings of loopback as URLs. Only these may be given to a client with the system's lookup and connections. */
export const LOOPBACK_URLS: readonly HostileUrl[] = LOOPBACK_HOSTS.map((host) => ({
  name: `loopback as ${host}`,
  url: `http://${host}:CANARY/`,
}));

export const HOSTILE_URLS: readonly HostileUrl[] = [
  ...LOOPBACK_URLS,
  ...PRIVATE_HOSTS.map((host) => ({ name: `private address ${host}`, url: `http://${host}:CANARY/` })),
  ...FORMS.map((url) => ({ name: `form ${JSON.stringify(url)}`, url })),
  ...NAMES.map(([host, ...answers]) => ({
    name: `name ${host} of ${answers.join(' then ')}`,
    url: `http://${host}:CANARY/`,
    answers,
  })),
  ...REDIRECTED.map((to) => ({ name: `redirect to ${to}`, url: redirect(to) })),
  ...REDIRECTED.map((to) => ({ name: `second redirect to ${to}`, url: redirect(redirect(to)) })),
];

/** Servers on loopback, and an `EgressDialer` that leads every approved address to them. */
export interface HostileNet {
  /** Makes the lookup and connections for a URL of the corpus. */
  dialerFor(hostile: HostileUrl): EgressDialer;
  /** Puts the real ports into a URL. */
  urlOf(hostile: HostileUrl): string;
  /** Returns all that got through: connections to the canary, and approved private addresses. */
  breaches(): readonly string[];
  close(): Promise<void>;
}

/** Starts the canary and the public server, which redirects as its parameter `to` says. */
export async function openHostileNet(): Promise<HostileNet> {
  const breaches: string[] = [];
  const canary = createServer((_, response) => response.end('canary'));
  canary.on('connection', () => breaches.push('a connection to the canary'));
  const open = createServer((request, response) => {
    const to = new URL(request.url ?? '', 'http://localhost').searchParams.get('to');
    response.writeHead(to === null ? 200 : 302, to === null ? {} : { location: withPorts(to) }).end();
  });
  const [canaryPort, publicPort] = [await listen(canary), await listen(open)];

  function withPorts(text: string): string {
    return text.replaceAll('CANARY', String(canaryPort)).replaceAll('PUBLIC', String(publicPort));
  }

  return {
    urlOf: ({ url }) => withPorts(url),
    breaches: () => breaches,
    dialerFor(hostile) {
      let asked = 0;
      return {
        resolve: (hostname, done) => {
          const { answers = [['127.0.0.1']] } = hostile;
          const found =
            hostname === PUBLIC_NAME
              ? [PUBLIC_ADDRESS]
              : (answers[Math.min(asked++, answers.length - 1)] ?? []);
          process.nextTick(done, null, found.map(toLookupAddress));
        },
        connect: (options) => {
          const { host = '', lookup } = options;
          const isPublic = host === PUBLIC_NAME;
          if (isIP(host) !== 0) breaches.push(`dialled ${host}`);
          // Approved addresses are recorded; the connection goes to loopback, or nowhere.
          const routed: LookupFunction = (name, wanted, done) => {
            lookup!(name, { ...wanted, all: true }, (error, addresses) => {
              const approved =
                error === null ? (addresses as LookupAddress[]).map(({ address }) => address) : [];
              breaches.push(...approved.filter(isPrivateAddress).map((address) => `approved ${address}`));
              if (error !== null) done(error, []);
              else if (!isPublic && !approved.some(isPrivateAddress)) done(new Error('routed nowhere'), []);
              else done(null, [{ address: '127.0.0.1', family: 4 }]);
            });
          };
          const socket = connect({ ...options, lookup: routed });
          if (isPublic) Object.defineProperty(socket, 'remoteAddress', { value: PUBLIC_ADDRESS });
          return socket;
        },
      };
    },
    async close() {
      for (const server of [canary, open]) {
        server.closeAllConnections();
        server.close();
        await once(server, 'close');
      }
    },
  };
}

function toLookupAddress(address: string): LookupAddress {
  return { address, family: address.includes(':') ? 6 : 4 };
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}
