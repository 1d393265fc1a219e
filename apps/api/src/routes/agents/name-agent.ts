import { randomInt } from 'node:crypto';

const MANNERS = [
  'Quiet',
  'Patient',
  'Bright',
  'Careful',
  'Early',
  'Steady',
  'Curious',
  'Gentle',
  'Swift',
  'Wakeful',
];
const CREATURES = ['Owl', 'Badger', 'Moth', 'Nightjar', 'Hedgehog', 'Otter', 'Fox', 'Bat', 'Lynx', 'Firefly'];

/** Makes up a name for an unnamed agent. Names are not unique. */
export function nameAgent(): string {
  return `${MANNERS[randomInt(MANNERS.length)] ?? ''}${CREATURES[randomInt(CREATURES.length)] ?? ''}`;
}
