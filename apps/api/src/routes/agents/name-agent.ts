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

/** A name for an agent whose maker gave it none; not unique. */
export function nameAgent(): string {
  return `${MANNERS[randomInt(MANNERS.length)] ?? ''}${CREATURES[randomInt(CREATURES.length)] ?? ''}`;
}
