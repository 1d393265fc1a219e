import { BlockList, isIP, isIPv6 } from 'node:net';

/** Address ranges that are not the public internet, by the IANA special-purpose registries. */
const PRIVATE_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
];
/** Those that carry an IPv4 address, except mapped ones, are refused whole: no public receiver has one. */
const PRIVATE_V6 = [
  '::/96',
  '::ffff:0:0:0/96',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '2001::/32',
  '2002::/16',
  'fc00::/7',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
];

const blocked = new BlockList();
for (const range of PRIVATE_V4) addRange(range, 'ipv4');
for (const range of PRIVATE_V6) addRange(range, 'ipv6');

function addRange(range: string, family: 'ipv4' | 'ipv6'): void {
  const [address = '', bits = ''] = range.split('/');
  blocked.addSubnet(address, Number(bits), family);
}

/** True for an address inside a network, which a URL that a stranger chose must not reach. IPv4 in IPv6 counts as IPv4. */
export function isPrivateAddress(address: string): boolean {
  return blocked.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

/** The address that a URL's host is, if it is one. URL has brought all its spellings (octal, hex, one number) to one. */
export function literalAddress(url: URL): string | null {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 ? null : host;
}
