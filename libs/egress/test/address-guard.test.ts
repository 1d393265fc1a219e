import ipaddr from 'ipaddr.js';
import { expect, test } from 'vitest';
import { isPrivateAddress } from '../src/index.ts';
import { SPECIAL_BLOCKS } from '../src/special-addresses.ts';

test('both ends of each special-purpose block of IANA are refused', () => {
  const ends = SPECIAL_BLOCKS.flatMap(({ block }) => {
    const family = block.includes(':') ? ipaddr.IPv6 : ipaddr.IPv4;
    return [family.networkAddressFromCIDR(block), family.broadcastAddressFromCIDR(block)].map(String);
  });
  expect(ends.filter((address) => !isPrivateAddress(address))).toEqual([]);
});

test.each([
  ['192.0.2.1', '192.0.3.0'],
  ['192.88.99.1', '192.88.100.1'],
  ['198.51.100.7', '198.51.101.7'],
  ['203.0.113.7', '203.0.114.7'],
  ['192.31.196.1', '192.31.197.1'],
  ['192.52.193.1', '192.52.194.1'],
  ['192.175.48.1', '192.175.49.1'],
  ['100::1', '2600::1'],
  ['100:0:0:1::1', '2600::1'],
  ['5f00::1', '2600::1'],
  ['3fff:fff::1', '3fff:1000::1'],
  ['2001:1::3', '2001:200::1'],
  ['2001:db8::1', '2001:db9::1'],
  ['2620:4f:8000::1', '2620:4f:8001::1'],
  ['::ffff:192.0.2.1', '::ffff:192.0.3.0'],
  ['64:ff9b::c000:201', '64:ff9c::1'],
  ['64:ff9b::101:101', '64:ff9c::1'],
  ['2002:101:101::1', '2003::1'],
  ['2001:0:101:101::1', '2001:200::1'],
  ['239.1.2.3', '223.255.255.255'],
  ['ff0e::1', '2606:4700::1111'],
  ['fe80::1%eth0', '2606:4700::1111'],
  ['', '1.1.1.1'],
])('%s is refused, %s beside it is not', (special, beside) => {
  expect([isPrivateAddress(special), isPrivateAddress(beside)]).toEqual([true, false]);
});

test('public addresses are not refused', () => {
  const addresses = ['1.1.1.1', '93.184.216.34', '2606:4700::1111', '::ffff:1.1.1.1', '64:ff9b:2::1'];
  expect(addresses.filter(isPrivateAddress)).toEqual([]);
});
