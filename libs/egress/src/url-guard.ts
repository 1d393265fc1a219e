import { isPrivateAddress, literalAddress } from './address-guard.ts';
import { EgressError } from './egress-error.ts';
import { faultOfPort } from './ports.ts';

/** Limits on the targets of a request and of its redirects. */
export interface TargetPolicy {
  /** Allows addresses inside private networks. */
  readonly allow_private: boolean;
  /** The only allowed hosts: `example.com`, `*.example.com` for its subdomains, each with `:port` if not the usual one. */
  readonly allowed_hosts?: readonly string[] | undefined;
}

const PRIVATE = 'the address is inside a private network';

/**
 * Parses a URL and checks everything that needs no lookup.
 * Throws: {@link EgressError} `refused` or `private_address`.
 */
export function checkedUrl(text: string, policy: TargetPolicy): URL {
  const url = URL.parse(text);
  if (url === null) throw refused('the URL does not parse');
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw refused(`the scheme ${url.protocol} is not served`);
  if (url.username !== '' || url.password !== '') throw refused('a URL must hold no name or password');
  const fault = faultOfPort(portOf(url));
  if (fault !== null) throw refused(fault);
  if (policy.allowed_hosts !== undefined && !policy.allowed_hosts.some((host) => matches(url, host)))
    throw refused(`the host ${url.host} is not among the allowed ones`);
  const literal = literalAddress(url);
  if (!policy.allow_private && literal !== null && isPrivateAddress(literal)) throw privateAddress();
  return url;
}

export function privateAddress(): EgressError {
  return new EgressError('private_address', PRIVATE, false);
}

export function refused(message: string): EgressError {
  return new EgressError('refused', message, false);
}

/** Returns the port of a URL, the usual one of its scheme included. */
function portOf(url: URL): number {
  return url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
}

function matches(url: URL, allowed: string): boolean {
  const wanted = allowed.toLowerCase();
  return wanted.startsWith('*.') ? url.host.endsWith(wanted.slice(1)) : url.host === wanted;
}
