/**
 * The one guarded HTTP client: for callbacks, HTTP tools, the sandbox's fetch and MCP.
 *
 * It dials public addresses and usual ports only, follows few redirects, and bounds the size and the time of an answer.
 */
export { createEgress, type Egress } from './egress.ts';
export type { EgressDialer } from './agents.ts';
export { EgressError, type EgressErrorCode } from './egress-error.ts';
export type { EgressAnswer, EgressOptions, EgressRequest } from './request.ts';
export { createGuardedFetch } from './guarded-fetch.ts';
export { isPrivateAddress } from './address-guard.ts';
export { checkedUrl, type TargetPolicy } from './url-guard.ts';
