import ipaddr from 'ipaddr.js';
import { SPECIAL_BLOCKS } from './special-addresses.ts';

const BLOCKS = SPECIAL_BLOCKS.map(({ block }) => ipaddr.parseCIDR(block));

/**
 * True for an address that a URL from a stranger must not reach: one of a special-purpose block, or no address at all. An
 * IPv4-mapped address counts as IPv4. Blocks that are globally reachable count too: they are anycast services and
 * translators to IPv4, never receivers.
 */
export function isPrivateAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return true;
  const parsed = ipaddr.process(address);
  return parsed.range() !== 'unicast' || BLOCKS.some(([base, bits]) => isWithin(parsed, base, bits));
}

function isWithin(
  address: ipaddr.IPv4 | ipaddr.IPv6,
  base: ipaddr.IPv4 | ipaddr.IPv6,
  bits: number,
): boolean {
  return address.kind() === base.kind() && address.match(base, bits);
}

/** The address that is the host of a URL; null for a name. URL has brought all spellings (octal, hex, one number) to one. */
export function literalAddress(url: URL): string | null {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return ipaddr.isValid(host) ? host : null;
}
