// Draws the courses of a pair's page. Beside each stands a table with the same figures.
document.querySelectorAll("[data-course]").forEach((place) => place.append(samples(JSON.parse(place.dataset.course))));
