const slider = document.getElementById('slider'), place = document.getElementById('place');
const move = percent => { slider.style.setProperty('--at', percent + '%'); place.value = percent; };
const follow = event => {
  const box = slider.getBoundingClientRect();
  move(Math.min(100, Math.max(0, 100 * (event.clientX - box.left) / box.width)));
};
slider.addEventListener('pointerdown', event => { slider.setPointerCapture(event.pointerId); follow(event); });
slider.addEventListener('pointermove', event => { if (event.buttons) follow(event); });
place.addEventListener('input', () => move(+place.value));
addEventListener('load', () => {
  const shown = [...slider.querySelectorAll('img')].filter(image => image.naturalWidth > 0);
  document.body.dataset.shown = shown.map(image => image.naturalWidth).join(' ');
  move(50);
});
