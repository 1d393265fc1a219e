import ipaddr from 'ipaddr.js';
import { SPECIAL_BLOCKS } from './special-addresses.ts';

const BLOCKS = SPECIAL_BLOCKS.map(({ block }) => ipaddr.parseCIDR(block));

/**
 * Tells whether callers' URLs must not reach an address: it is in a special-purpose block, or no address at all.
 *
 * An IPv4-mapped address counts as IPv4. Globally reachable blocks count too: they hold anycast services and translators
 * to IPv4, never receivers.
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

/** Returns the IP address in the host of a URL; null for a name. `URL` has normalized octal, hex and single numbers. */
export function literalAddress(url: URL): string | null {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return ipaddr.isValid(host) ? host : null;
}
